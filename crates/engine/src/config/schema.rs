//! A JSON schema of the config files, for editors: made from the table of keys.

use becket_wire::event::EventName;
use serde_json::{Map, Value as Json, json};

use super::guard::GUARD_KEYS;
use super::hook::{HOOK_KEYS, TableKey};
use super::key::{KEYS, Key};
use super::skill::{SKILL_KEYS, SKILL_RULE_KEYS};
use super::value::Form;
use crate::hooks::builtin::{BUILT_INS, BuiltIn};

/// Makes the schema of a config file.
pub fn schema() -> Json {
    let mut root = Map::new();
    for key in KEYS {
        let mut at = &mut root;
        let mut parts: Vec<&str> = key.path.split('.').collect();
        let last = parts.pop().unwrap_or_default();
        for part in parts {
            at = section(at, part);
        }
        if last == "*" {
            at.insert("*".to_owned(), property(key));
        } else {
            at.insert(last.to_owned(), property(key));
        }
    }
    let mut schema = close(root);
    schema["properties"]["hooks"] = hooks();
    schema["properties"]["guards"] = named(&table(GUARD_KEYS));
    let mut skill = table(SKILL_KEYS);
    skill["properties"]["rules"] = named(&table(SKILL_RULE_KEYS));
    schema["properties"]["skills"] = named(&skill);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("becket config");
    schema
}

/// The name under which a section collects its keys. No key has it.
const SECTION: &str = "[]";

fn section<'a>(at: &'a mut Map<String, Json>, name: &str) -> &'a mut Map<String, Json> {
    let entry = at.entry(name).or_insert_with(|| json!({ SECTION: {} }));
    match entry.get_mut(SECTION) {
        Some(Json::Object(inner)) => inner,
        _ => unreachable!("{name} is both a key and a section"),
    }
}

fn close(properties: Map<String, Json>) -> Json {
    let mut named = Map::new();
    let mut others = json!(false);
    for (name, mut value) in properties {
        if let Some(Json::Object(inner)) = value.get_mut(SECTION).map(Json::take) {
            value = close(inner);
        }
        match name.as_str() {
            "*" => others = value,
            _ => drop(named.insert(name, value)),
        }
    }
    json!({ "type": "object", "properties": named, "additionalProperties": others })
}

/// Makes the schema of `[hooks.*]`: the built-ins by their names, and any other name.
fn hooks() -> Json {
    let named: Map<String, Json> = BUILT_INS
        .iter()
        .map(|hook| (hook.name.to_owned(), built_in(hook)))
        .collect();
    json!({ "type": "object", "properties": named, "additionalProperties": table(HOOK_KEYS) })
}

/// Makes the schema of a built-in hook: it has keys of its own, and no `run`.
fn built_in(hook: &BuiltIn) -> Json {
    let mut table = table(HOOK_KEYS.iter().filter(|key| key.name != "run"));
    if let Some(properties) = table["properties"].as_object_mut() {
        for key in hook.keys {
            properties.entry(*key).or_insert_with(|| json!({}));
        }
    }
    table["description"] = json!(hook.description);
    table
}

/// Makes the schema of a table with these keys.
fn table<'a>(keys: impl IntoIterator<Item = &'a TableKey>) -> Json {
    let properties: Map<String, Json> = keys
        .into_iter()
        .map(|key| (key.name.to_owned(), hook_property(key)))
        .collect();
    json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

/// Makes the schema of table with any name, all with the same keys.
fn named(table: &Json) -> Json {
    json!({ "type": "object", "additionalProperties": table })
}

fn hook_property(key: &TableKey) -> Json {
    let mut property = form(key.form);
    if key.name == "on" {
        let events: Vec<&str> = EventName::ALL.iter().map(EventName::as_str).collect();
        let event = json!({ "type": "string", "examples": events });
        property = json!({ "anyOf": [event, { "type": "array", "items": event }] });
    }
    property["description"] = json!(key.about);
    property
}

fn property(key: &Key) -> Json {
    let mut property = form(key.form);
    property["description"] = json!(key.about);
    if let Some(default) = key.default {
        property["default"] = serde_json::from_str(default).unwrap_or_else(|_| json!(default));
    }
    property
}

fn form(form: Form) -> Json {
    match form {
        Form::Bool => json!({ "type": "boolean" }),
        Form::Number { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Form::Bytes => json!({
            "type": ["string", "integer"],
            "minimum": 0,
            "pattern": "^[0-9]+ *([KMGTkmgt][iI]?)?[Bb]?$",
        }),
        Form::Span { .. } => json!({
            "type": "string",
            "pattern": "^(never|([0-9]+(ms|s|m|h|d))+)$",
        }),
        Form::Text(_) => json!({ "type": "string" }),
        Form::Program | Form::Words(_) => {
            json!({ "type": ["string", "array"], "items": { "type": "string" } })
        }
    }
}
