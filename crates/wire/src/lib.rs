//! The types that Claude Code and becket exchange (events, answers), and those that becket's own programs
//! exchange (frames, requests). No I/O, no runtime: values in, values out.

pub mod account;
pub mod answer;
pub mod bounds;
pub mod effort;
pub mod event;
pub mod frame;
pub mod head;
pub mod hook_run;
pub mod id;
pub mod json;
pub mod log;
pub mod place;
pub mod process;
pub mod question;
pub mod registration;
pub mod rpc;
pub mod session;
pub mod text;
pub mod tool;
pub mod version;

pub use account::{Account, Actor};
pub use answer::{Answer, Output};
pub use head::Head;
pub use id::EventId;
pub use place::Place;
pub use process::StartReport;
pub use registration::Registration;
pub use rpc::NoAnswer;
pub use version::{PROTOCOL, Version};
