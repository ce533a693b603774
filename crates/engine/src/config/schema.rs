//! A JSON schema of the config files, for editors: made from the table of keys.

use serde_json::{Map, Value as Json, json};

use super::key::{KEYS, Key, RAW};
use super::value::Form;

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
    for section in RAW {
        schema["properties"][section] = json!({
            "type": "object",
            "additionalProperties": { "type": "object" },
        });
    }
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

fn property(key: &Key) -> Json {
    let mut property = match key.form {
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
        Form::Program => json!({ "type": ["string", "array"], "items": { "type": "string" } }),
    };
    property["description"] = json!(key.about);
    if let Some(default) = key.default {
        property["default"] = serde_json::from_str(default).unwrap_or_else(|_| json!(default));
    }
    property
}
