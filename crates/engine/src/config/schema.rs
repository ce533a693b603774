//! A JSON schema of the config files, for editors: made from the table of keys.

use becket_wire::event::EventName;
use serde_json::{Map, Value as Json, json};

use super::guard::GUARD_KEYS;
use super::hook::{HOOK_KEYS, TableKey};
use super::key::{KEYS, Key};
use super::skill::{SKILL_KEYS, SKILL_RULE_KEYS};
use super::value::Form;
use crate::hooks::builtin::{BUILT_INS, BuiltIn};

/// The schema of a config file.
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
    schema["properties"]["guards"] = named(&tables(GUARD_KEYS));
    let mut skill = tables(SKILL_KEYS);
    skill["properties"]["rules"] = named(&tables(SKILL_RULE_KEYS));
    schema["properties"]["skills"] = named(&skill);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("becket config");
    schema
}

/// Sections are built as maps under a name that no key has, and closed when all keys are in.
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

/// `[hooks.*]`: the built-ins by their names, and any other name.
fn hooks() -> Json {
    let of = |built_in: Option<&BuiltIn>| {
        let known = |key: &&TableKey| built_in.is_none() || key.name != "run";
        let mut properties: Map<String, Json> = HOOK_KEYS
            .iter()
            .filter(known)
            .map(|key| (key.name.to_owned(), hook_property(key)))
            .collect();
        let own = built_in.map_or(&[][..], |hook| hook.keys);
        for key in own {
            properties.entry(*key).or_insert_with(|| json!({}));
        }
        let mut table = json!({
            "type": "object",
            "properties": properties,
            "additionalProperties": false,
        });
        if let Some(hook) = built_in {
            table["description"] = json!(hook.description);
        }
        table
    };
    let named: Map<String, Json> = BUILT_INS
        .iter()
        .map(|hook| (hook.name.to_owned(), of(Some(hook))))
        .collect();
    json!({ "type": "object", "properties": named, "additionalProperties": of(None) })
}

/// A table with these keys.
fn tables(keys: &[TableKey]) -> Json {
    let property = |key: &TableKey| (key.name.to_owned(), hook_property(key));
    let properties: Map<String, Json> = keys.iter().map(property).collect();
    json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

/// Tables of any name, all with the same keys.
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
