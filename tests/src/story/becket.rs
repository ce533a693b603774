//! becket as a story's registration, put there by its own `init`.

use super::events::{Event, Events};
use super::registration::Registration;
use crate::claude::{Claude, Home};
use crate::skip::Unavailable;
use crate::world::World;

/// Earlier versions drop all hooks of a settings file in which they do not know one event.
pub const TOLERANT: &str = "2.1.101";

/// Earlier versions take no notice of a hook's `args`.
pub const EXEC_FORM: &str = "2.1.139";

/// A becket of the story's own, registered in the user's settings.
#[derive(Debug, Default)]
pub struct Becket {
    pub world: World,
    init: Vec<String>,
    config: String,
    even_where_deaf: bool,
    launched_only: bool,
}

impl Becket {
    /// Also with a version that cannot hear it.
    #[must_use]
    pub fn even_where_deaf(mut self) -> Self {
        self.even_where_deaf = true;
        self
    }

    /// The user's config, and a project that its person trusts.
    #[must_use]
    pub fn config(mut self, config: &str) -> Self {
        self.config = config.to_owned();
        self
    }

    /// No settings file names it: only `becket run` registers it.
    #[must_use]
    pub fn launched_only(mut self) -> Self {
        self.launched_only = true;
        self
    }

    /// Says more on the command line of `becket init`.
    #[must_use]
    pub fn init(mut self, args: &[&str]) -> Self {
        self.init.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }
}

impl Registration for Becket {
    fn name(&self) -> &'static str {
        "becket"
    }

    fn register(&mut self, claude: &Claude, home: &mut Home) -> Result<(), Unavailable> {
        if self.launched_only {
            return claude.must_be(EXEC_FORM, "hooks without a shell");
        }
        if !self.even_where_deaf {
            claude.must_be(
                TOLERANT,
                "hooks beside an event that it does not know, and becket registers some",
            )?;
        }
        if !claude.is_at_least(EXEC_FORM) {
            // Told nothing, the shim takes the usual home: here, the one of this story.
            home.set_env("BECKET_HOME", self.world.becket_home.to_string_lossy());
        }
        let done = self
            .world
            // Beneath a status line the program hides what it tells a person about a turn.
            .becket(["init", "--no-statusline"])
            .args(&self.init)
            .env("HOME", home.home())
            .env("CLAUDE_CONFIG_DIR", home.config())
            .current_dir(home.project())
            .output()
            .expect("run becket init");
        assert!(done.status.success(), "becket init: {done:?}");
        if !self.config.is_empty() {
            std::fs::write(self.world.path("config.toml"), &self.config).expect("a config");
            let mut trust = self.world.becket(["trust", "--yes"]);
            let trusted = trust.current_dir(home.project()).output();
            let trusted = trusted.expect("run becket trust");
            assert!(trusted.status.success(), "becket trust: {trusted:?}");
        }
        Ok(())
    }

    fn events(&self, _: &Home) -> Events {
        let log = self.world.run(&["events", "--raw", "--duplicates"]);
        let payloads = log.lines().filter(|line| !line.is_empty());
        Events(payloads.map(|raw| Event::new(raw.to_owned())).collect())
    }

    fn world(&self) -> Option<&World> {
        Some(&self.world)
    }
}
