//! Edits settings.json.
