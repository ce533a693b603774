//! One constant per event, under the name of the event's type.

use becket_wire::event::{Event, EventName};

use super::On;

macro_rules! selectors {
    ($($name:ident)*) => {$(
        pub use becket_wire::event::$name;

        #[doc = concat!("Selects ", stringify!($name), ": its callbacks get a [`", stringify!($name), "`](struct@", stringify!($name), ").")]
        #[expect(non_upper_case_globals, reason = "named like the type that the callback gets")]
        pub const $name: On<$name> = On {
            name: EventName::$name,
            read: |event| match event {
                Event::$name(event) => Some(event),
                _ => None,
            },
        };
    )*};
}

selectors! {
    PreToolUse PostToolUse PostToolUseFailure PostToolBatch Notification UserPromptSubmit
    UserPromptExpansion SessionStart SessionEnd Stop StopFailure SubagentStart SubagentStop
    PreCompact PostCompact PreModelSwitch PostModelSwitch PermissionRequest PermissionDenied Setup
    TeammateIdle TaskCreated TaskCompleted Elicitation ElicitationResult ConfigChange
    WorktreeCreate WorktreeRemove InstructionsLoaded CwdChanged FileChanged DirectoryAdded
    MessageDisplay
}
