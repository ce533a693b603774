//! A JSON schema of the config files, for editors: made from the structs of the config.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value as Json, json};

use super::Config;
use super::guard::GuardTable;
use super::hook::HookTable;
use super::skill::SkillTable;
use crate::hooks::builtin::{BUILT_INS, BuiltIn};

/// The value of each key that is set nowhere else.
const DEFAULTS: &str = include_str!("defaults.toml");

/// Makes the schema of a config file.
pub fn schema() -> Json {
    let mut schema = base_schema();
    let named: Map<String, Json> = BUILT_INS
        .iter()
        .map(|hook| (hook.name.to_owned(), built_in(hook)))
        .collect();
    schema["properties"]["hooks"]["properties"] = named.into();
    schema["title"] = json!("becket config");
    schema
}

/// Makes the schema without the built-in hooks.
pub(super) fn base_schema() -> Json {
    let mut schema = schema_of::<Config>();
    for (section, table) in [
        ("hooks", schema_of::<BTreeMap<String, HookTable>>()),
        ("guards", schema_of::<BTreeMap<String, GuardTable>>()),
        ("skills", schema_of::<BTreeMap<String, SkillTable>>()),
    ] {
        schema["properties"][section] = table;
    }
    let defaults: BTreeMap<String, Map<String, Json>> =
        toml::from_str(DEFAULTS).unwrap_or_default();
    for (section, keys) in defaults {
        for (key, default) in keys {
            schema["properties"][&section]["properties"][key]["default"] = default;
        }
    }
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema
}

fn schema_of<T: JsonSchema>() -> Json {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let settings = settings.with_transform(RecursiveTransform(tidy));
    settings.into_generator().into_root_schema_for::<T>().into()
}

/// Removes what TOML does not have, and the defaults of Rust.
fn tidy(schema: &mut Schema) {
    for name in ["default", "format"] {
        schema.remove(name);
    }
    if schema.get("type").is_some_and(|name| name == "object") {
        schema.remove("title");
    }
    let Some(Json::Array(types)) = schema.get_mut("type") else {
        return;
    };
    types.retain(|name| name != "null");
    if let [only] = &types[..] {
        let only = only.clone();
        schema.insert("type".to_owned(), only);
    }
}

/// Makes the schema of a built-in hook: it has keys of its own, and no `run`.
fn built_in(hook: &BuiltIn) -> Json {
    let mut table = schema_of::<HookTable>();
    if let Some(properties) = table["properties"].as_object_mut() {
        properties.remove("run");
        for key in hook.keys {
            properties.entry(*key).or_insert_with(|| json!({}));
        }
    }
    table["description"] = json!(hook.description);
    table
}
