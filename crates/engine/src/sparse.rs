//! What is written with every event is written sparsely: a field that says nothing is left out, and
//! whoever reads gets its default. With all of them, a session took two thirds more in the log.

/// For `skip_serializing_if`, in a struct that is `#[serde(default)]`.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
