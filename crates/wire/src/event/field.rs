//! Takes fields out of a JSON object and puts them back, without loss. A field of an unexpected type stays in
//! the object, and reads as absent.

use serde_json::error::Category;
use serde_json::{Map, Number, Value};

use crate::json;

/// The fields that remain in an object: unknown ones, and those of an unexpected type.
pub type Rest = Map<String, Value>;

pub(crate) trait Field: Sized {
    /// Reads a value. The error is the value itself, if it has another type.
    fn read(value: Value) -> Result<Self, Value>;
    fn write(&self) -> Value;
}

pub(crate) fn take<T: Field>(object: &mut Rest, key: &str) -> Option<T> {
    match T::read(object.remove(key)?) {
        Ok(field) => Some(field),
        Err(value) => {
            object.insert(key.to_owned(), value);
            None
        }
    }
}

pub(crate) fn put<T: Field>(field: Option<&T>, object: &mut Rest, key: &str) {
    if let Some(field) = field {
        object.insert(key.to_owned(), field.write());
    }
}

/// The error for a missing field without which the event cannot be judged.
#[derive(Debug)]
pub(super) struct Missing(pub &'static str);

/// A field of an event: `Option<T>` may be missing, a plain `T` must be there.
pub(super) trait Slot: Sized {
    fn take(object: &mut Rest, key: &'static str) -> Result<Self, Missing>;
    fn put(&self, object: &mut Rest, key: &'static str);
}

impl<T: Field> Slot for Option<T> {
    fn take(object: &mut Rest, key: &'static str) -> Result<Self, Missing> {
        Ok(take(object, key))
    }

    fn put(&self, object: &mut Rest, key: &'static str) {
        put(self.as_ref(), object, key);
    }
}

macro_rules! scalar {
    ($type:ty, $variant:ident) => {
        impl Field for $type {
            fn read(value: Value) -> Result<Self, Value> {
                match value {
                    Value::$variant(inner) => Ok(inner),
                    other => Err(other),
                }
            }

            fn write(&self) -> Value {
                Value::$variant(self.clone())
            }
        }
    };
}

scalar!(bool, Bool);
scalar!(String, String);
// A `Number` stays as it came: `1`, `1.0` and `0.0062` are three different numbers to write back.
scalar!(Number, Number);
scalar!(Rest, Object);

impl Field for Value {
    fn read(value: Value) -> Result<Self, Value> {
        Ok(value)
    }

    fn write(&self) -> Value {
        self.clone()
    }
}

/// A field where Claude Code sends `null` on purpose.
impl<T: Field> Field for Option<T> {
    fn read(value: Value) -> Result<Self, Value> {
        match value {
            Value::Null => Ok(None),
            other => T::read(other).map(Some),
        }
    }

    fn write(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::write)
    }
}

impl<T: Field> Field for Vec<T> {
    fn read(value: Value) -> Result<Self, Value> {
        let Value::Array(values) = value else {
            return Err(value);
        };
        let mut values = values.into_iter();
        let mut items = Vec::with_capacity(values.len());
        while let Some(value) = values.next() {
            match T::read(value) {
                Ok(item) => items.push(item),
                Err(other) => {
                    let before = items.iter().map(T::write);
                    return Err(before.chain([other]).chain(values).collect());
                }
            }
        }
        Ok(items)
    }

    fn write(&self) -> Value {
        self.iter().map(T::write).collect()
    }
}

macro_rules! must {
    ($type:ty) => {
        impl Slot for $type {
            fn take(object: &mut Rest, key: &'static str) -> Result<Self, Missing> {
                take(object, key).ok_or(Missing(key))
            }

            fn put(&self, object: &mut Rest, key: &'static str) {
                put(Some(self), object, key);
            }
        }
    };
}

must!(String);
must!(Value);

/// The reason why a text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JsonError {
    Syntax {
        line: usize,
        column: usize,
        why: String,
    },
    /// JSON that is nested deeper than serde_json reads (128 levels).
    TooDeep,
}

/// Reads one JSON value. A lone surrogate becomes U+FFFD.
pub(crate) fn parse(text: &[u8]) -> Result<Value, JsonError> {
    serde_json::from_slice(text).or_else(|error| {
        let text = std::str::from_utf8(text).unwrap_or_default();
        serde_json::from_str(&json::repaired(text, usize::MAX).0).map_err(|_| explain(&error))
    })
}

fn explain(error: &serde_json::Error) -> JsonError {
    let whole = error.to_string();
    let why = whole.split(" at line ").next().unwrap_or_default();
    // serde_json has no category for this error.
    if error.classify() == Category::Syntax && why == "recursion limit exceeded" {
        return JsonError::TooDeep;
    }
    JsonError::Syntax {
        line: error.line(),
        column: error.column(),
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_position_and_reason() {
        assert_eq!(
            parse(b"{\"a\":\n nope}"),
            Err(JsonError::Syntax {
                line: 2,
                column: 3,
                why: "expected ident".into()
            })
        );
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert_eq!(parse(deep.as_bytes()), Err(JsonError::TooDeep));
    }
}
