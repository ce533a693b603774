//! One verb, one file, of the same name as its request, its handler and its test.

pub mod init;
pub mod uninit;
