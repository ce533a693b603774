//! Tools of Claude Code that becket knows by name.

/// Tools that give their `command` to a shell.
const SHELLS: [&str; 3] = ["Bash", "Monitor", "PowerShell"];

/// Returns true for a tool of Claude Code that runs shell commands.
pub fn is_shell(tool: &str) -> bool {
    SHELLS.contains(&tool)
}
