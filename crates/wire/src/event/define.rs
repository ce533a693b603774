//! The three macros that turn a list into types: `words!` (open enums), `object!` (JSON objects
//! inside an event) and `events!` (the table of events).

/// An enum of known words that keeps any other word as it came.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($word:ident = $text:expr,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(from = "String", into = "String")]
        #[non_exhaustive]
        pub enum $name {
            $($word,)*
            /// A word that becket does not know. Made by `from` only, so a known word is never here.
            Other(String),
        }

        impl $name {
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$word => $text,)*
                    Self::Other(word) => word,
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                $(if word == $text {
                    return Self::$word;
                })*
                Self::Other(word)
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                Self::from(word.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> Self {
                word.as_str().to_owned()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

/// A JSON object whose fields may all be missing. With `..rest` it keeps unknown fields; without, the object
/// that contains it keeps them.
macro_rules! object {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$field_meta:meta])* $field:ident: Option<$type:ty>,)*
        $(..$rest:ident)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
        #[serde(from = "Rest")]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_meta])* pub $field: Option<$type>,)*
            $(pub $rest: Rest,)?
        }

        impl $name {
            fn take_from(object: &mut Rest) -> Self {
                Self {
                    $($field: take(object, key!($field)),)*
                    $($rest: std::mem::take(object),)?
                }
            }
        }

        impl From<Rest> for $name {
            fn from(mut object: Rest) -> Self {
                Self::take_from(&mut object)
            }
        }
    };
}

/// A field's name in JSON, also where it is a keyword in Rust.
macro_rules! key {
    ($field:ident) => {
        stringify!($field).trim_start_matches("r#")
    };
}

/// The struct, the `EventName` and the variant of `Event` for every event of the table.
macro_rules! events {
    ($(
        $(#[$meta:meta])*
        $name:ident $(matching $by:literal)? $(needs $($needed:literal)+)? {
            $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
        }
    )*) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Clone, PartialEq)]
            #[non_exhaustive]
            pub struct $name {
                pub common: Common,
                $($(#[$field_meta])* pub $field: $type,)*
                pub rest: Rest,
            }

            impl $name {
                fn take_from(mut object: Rest) -> Result<Self, Missing> {
                    Ok(Self {
                        common: Common::take_from(&mut object),
                        $($field: Slot::take(&mut object, key!($field))?,)*
                        rest: object,
                    })
                }
            }
        )*

        words! {
            /// The name of an event, known or not.
            EventName { $($name = stringify!($name),)* }
        }

        impl EventName {
            /// Every event that becket knows, in the order of the table.
            pub const ALL: [Self; [$(stringify!($name)),*].len()] = [$(Self::$name),*];

            /// Returns the field that the matcher of a registration is compared with; none where Claude Code
            /// ignores the matcher. For FileChanged, only the base name is compared.
            pub fn matcher_field(&self) -> Option<&'static str> {
                match self {
                    $(Self::$name => None$(.or(Some($by)))?,)*
                    Self::Other(_) => None,
                }
            }
        }

        /// Returns the event's own fields that Claude Code always sends, as measured on 2.1.325; none for an
        /// event that becket does not know.
        pub(crate) fn required_fields(event: &str) -> &'static [&'static str] {
            match event {
                $(stringify!($name) => &[$($($needed),+)?],)*
                _ => &[],
            }
        }

        /// One event, typed.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Event {
            $($(#[$meta])* $name($name),)*
            /// An event of a newer Claude Code.
            Unknown {
                name: String,
                common: Common,
                rest: Rest,
            },
        }

        impl Event {
            pub fn name(&self) -> EventName {
                match self {
                    $(Self::$name(_) => EventName::$name,)*
                    Self::Unknown { name, .. } => EventName::from(name.as_str()),
                }
            }

            /// Returns the fields that every event may have.
            pub fn common(&self) -> &Common {
                match self {
                    $(Self::$name(event) => &event.common,)*
                    Self::Unknown { common, .. } => common,
                }
            }

            /// Returns the fields that this becket has no name or no type for.
            pub fn rest(&self) -> &Rest {
                match self {
                    $(Self::$name(event) => &event.rest,)*
                    Self::Unknown { rest, .. } => rest,
                }
            }

            pub(super) fn take_from(name: EventName, mut object: Rest) -> Result<Self, Missing> {
                match name {
                    $(EventName::$name => $name::take_from(object).map(Self::$name),)*
                    EventName::Other(name) => Ok(Self::Unknown {
                        name,
                        common: Common::take_from(&mut object),
                        rest: object,
                    }),
                }
            }
        }
    };
}

pub(crate) use words;
pub(super) use {events, key, object};
