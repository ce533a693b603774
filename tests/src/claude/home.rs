//! A home for one Claude Code: nothing in it or around it comes from the user of the machine.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A settings file of Claude Code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsScope {
    User,
    Project,
    Local,
}

/// HOME, the config folder and a project of Claude Code, with the environment that points to them.
#[derive(Debug)]
pub struct Home {
    root: PathBuf,
    env: Vec<(String, String)>,
    _folder: TempDir,
}

impl Home {
    /// Creates a home for a Claude Code that uses the model at `url`. Onboarding is done and the project is
    /// trusted, because the interactive program would ask.
    pub fn new(url: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("becket-")
            .tempdir()
            .expect("make a temporary home");
        let root = folder
            .path()
            .canonicalize()
            .expect("find the temporary home");
        let mut home = Self {
            root,
            env: Vec::new(),
            _folder: folder,
        };
        for folder in [home.home(), home.config(), home.project().join(".claude")] {
            fs::create_dir_all(&folder).expect("make the folders of the home");
        }
        home.env = home.first_env(url);
        home.trust(&home.project());
        home
    }

    /// Returns the folder that contains this home.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Returns `CLAUDE_CONFIG_DIR`.
    pub fn config(&self) -> PathBuf {
        self.home().join(".claude")
    }

    /// Returns the folder that Claude Code starts in.
    pub fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    /// Returns the whole environment of Claude Code: nothing else is passed on.
    pub fn env(&self) -> &[(String, String)] {
        &self.env
    }

    /// Sets a variable of the environment.
    pub fn set_env(&mut self, name: &str, value: impl Into<String>) {
        self.env.retain(|(key, _)| key != name);
        self.env.push((name.to_owned(), value.into()));
    }

    /// Writes a file of the project.
    pub fn file(&self, path: &str, content: &str) -> PathBuf {
        let path = self.project().join(path);
        put(&path, content);
        path
    }

    pub fn settings_path(&self, scope: SettingsScope) -> PathBuf {
        match scope {
            SettingsScope::User => self.config().join("settings.json"),
            SettingsScope::Project => self.project().join(".claude/settings.json"),
            SettingsScope::Local => self.project().join(".claude/settings.local.json"),
        }
    }

    /// Reads the settings; an absent file is an empty object.
    pub fn settings(&self, scope: SettingsScope) -> Value {
        let text = fs::read_to_string(self.settings_path(scope)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_else(|_| json!({}))
    }

    pub fn set_settings(&self, scope: SettingsScope, settings: &Value) {
        let text = format!("{settings:#}\n");
        put(&self.settings_path(scope), &text);
    }

    /// Adds one handler for one event, after the existing ones.
    pub fn add_hook(
        &self,
        scope: SettingsScope,
        event: &str,
        matcher: Option<&str>,
        handler: &Value,
    ) {
        let mut settings = self.settings(scope);
        let mut group = json!({"hooks": [handler]});
        if let Some(matcher) = matcher {
            group["matcher"] = json!(matcher);
        }
        match settings["hooks"][event].as_array_mut() {
            Some(groups) => groups.push(group),
            None => settings["hooks"][event] = json!([group]),
        }
        self.set_settings(scope, &settings);
    }

    /// Answers the questions that the interactive program asks a newcomer.
    fn trust(&self, project: &Path) {
        let state = json!({
            "hasCompletedOnboarding": true,
            "theme": "dark",
            "numStartups": 3,
            "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
            "projects": {
                project.to_string_lossy(): {
                    "hasTrustDialogAccepted": true,
                    "hasCompletedProjectOnboarding": true,
                },
            },
        });
        put(&self.state_path(), &state.to_string());
    }

    /// Sets one field of the state that Claude Code keeps between runs.
    pub fn remember(&self, field: &str, value: Value) {
        let text = fs::read_to_string(self.state_path()).expect("read what the program keeps");
        let mut state: Value = serde_json::from_str(&text).expect("what it keeps is JSON");
        state[field] = value;
        put(&self.state_path(), &state.to_string());
    }

    fn state_path(&self) -> PathBuf {
        self.config().join(".claude.json")
    }

    fn first_env(&self, url: &str) -> Vec<(String, String)> {
        let home = self.home().display().to_string();
        let config = self.config().display().to_string();
        let fixed = [
            ("HOME", home.as_str()),
            ("CLAUDE_CONFIG_DIR", config.as_str()),
            ("ANTHROPIC_BASE_URL", url),
            ("ANTHROPIC_API_KEY", "dummy"),
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("SHELL", "/bin/bash"),
            ("TERM", "xterm-256color"),
            ("LANG", "C.UTF-8"),
            ("NO_PROXY", "127.0.0.1"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("DISABLE_TELEMETRY", "1"),
            ("DISABLE_ERROR_REPORTING", "1"),
            ("IS_SANDBOX", "1"),
        ];
        fixed
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec()
    }
}

fn put(path: &Path, content: &str) {
    let folder = path.parent().expect("a file in a folder");
    fs::create_dir_all(folder).expect("make the folder of a file");
    fs::write(path, content).unwrap_or_else(|e| panic!("write {}: {e}", path.display()));
}
