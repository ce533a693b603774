//! The arguments of the shim: what `becket init` writes into settings.json, and the shim reads.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::frame::Kind;
use crate::rpc::CARRIED_BY_LINE;

/// Which registration an event came through. Arguments beat the environment: a project's settings
/// can set variables for our hook, and must not be able to lead it elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registration {
    /// The event that it is for.
    pub event: Option<String>,
    /// Where it stands: settings, plugin, run, sdk.
    pub from: Option<String>,
    /// The becket home that it works for.
    pub home: Option<PathBuf>,
    /// It is for the status line, not for an event.
    pub statusline: bool,
    /// The person had a status line before, which is shown beside ours.
    pub beside: bool,
    /// The refresh interval is the person's own, so their program runs each time.
    pub own_refresh: bool,
    /// Somebody only wants to know which shim this is.
    pub version: bool,
    /// Or what it is for.
    pub help: bool,
}

impl Registration {
    /// Reads the arguments. A newer registration may say more than this program understands, so
    /// what is unknown is passed over.
    pub fn read(mut args: impl Iterator<Item = OsString>) -> Self {
        let mut registration = Self::default();
        let text = |arg: OsString| arg.to_string_lossy().into_owned();
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("--event") => registration.event = args.next().map(text),
                Some("--from") => registration.from = args.next().map(text),
                Some("--home") => registration.home = args.next().map(PathBuf::from),
                Some("--statusline") => registration.statusline = true,
                Some("--beside") => registration.beside = true,
                Some("--own-refresh") => registration.own_refresh = true,
                Some("--version" | "-V") => registration.version = true,
                Some("--help" | "-h") => registration.help = true,
                _ => {}
            }
        }
        registration
    }

    /// What a call through it sends.
    pub fn kind(&self) -> Kind {
        if self.statusline {
            Kind::STATUS_LINE
        } else {
            Kind::EVENT
        }
    }

    /// The variables that its envelope carries besides those that all do.
    pub fn carries(&self) -> &'static [&'static str] {
        if self.statusline {
            &CARRIED_BY_LINE
        } else {
            &[]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_knows_and_passes_over_the_rest() {
        let args = [
            "--new", "--event", "Stop", "x", "--from", "run", "--home", "/h", "--event",
        ];
        let read = Registration::read(args[..8].iter().map(OsString::from));
        let expected = Registration {
            event: Some("Stop".into()),
            from: Some("run".into()),
            home: Some("/h".into()),
            ..Registration::default()
        };
        assert_eq!(read, expected);
        assert_eq!(
            Registration::read(args.iter().map(OsString::from)).event,
            None
        );
        let line = ["--statusline", "--beside", "--home", "/h", "--own-refresh"];
        let read = Registration::read(line[..4].iter().map(OsString::from));
        assert!(read.statusline && read.beside && !read.version, "{read:?}");
        assert!(
            !read.own_refresh && Registration::read(line.iter().map(OsString::from)).own_refresh
        );
        for (arg, version, help) in [
            ("--version", true, false),
            ("-V", true, false),
            ("--help", false, true),
            ("-h", false, true),
        ] {
            let read = Registration::read(std::iter::once(arg.into()));
            assert_eq!((read.version, read.help), (version, help), "{arg}");
        }
        let read = Registration::read(["--event", "--help"].into_iter().map(OsString::from));
        assert!(!read.help, "that is the event's name");
    }
}
