use super::*;

use becket_engine::config::{Files, Loader};
use becket_wire::Place;

/// What the verb would show, without styles and without the folder of this run.
fn shown(show: fn(&Snapshot) -> String) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str| {
        std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
        std::fs::write(path(name), text).unwrap();
    };
    write(
        "home/config.toml",
        "[store]\nkeep_days = 7\nkeep_byte = 1\n\n[hooks.mine]\nrun = \"x\"\non = [\"Stop\"]\n",
    );
    write("managed.toml", "[daemon]\nidle = \"soon\" # é\n");
    write("project/.becket/config.toml", "[guards.x]\n");
    let files = Files {
        system: path("system.toml"),
        user: path("home/config.toml"),
        project: Some(path("project")),
        managed: path("managed.toml"),
    };
    let mut loader = Loader::with_files(&files, &Place::new(path("home")), false);
    let text = anstream::adapter::strip_str(&show(&loader.current())).to_string();
    text.replace(&folder.path().display().to_string(), "")
}

#[test]
fn shows_every_value_with_what_set_it() {
    insta::assert_snapshot!(shown(|snapshot| values(snapshot, usize::MAX)), @r#"
    daemon.idle           12h       built-in
    hooks.mine.enabled    true      /home/config.toml:5
    hooks.mine.on         ["Stop"]  /home/config.toml:7
    hooks.mine.run        x         /home/config.toml:6
    launch.context        true      built-in
    mask.enabled          true      built-in
    notice.after          1m        built-in
    notice.command                  built-in
    notice.how            bell      built-in
    notice.on             off       built-in
    notice.quiet          never     built-in
    statusline.bar_width  10        built-in
    statusline.template   {project} · {model} · {bar} {context} · {cost} · {waiting} · {off} · {wrong}  built-in
    store.keep_bytes      4GiB      built-in
    store.keep_days       7         /home/config.toml:2
    "#);
}

#[test]
fn in_little_room_what_is_long_goes_on_below() {
    let rows = [
        ["store.keep_days", "7", "/home/you/.becket/config.toml:2"],
        [
            "hooks.mine.run",
            "scripts/check --all the files",
            "built-in",
        ],
        ["notice.how", "bell", "built-in"],
    ];
    let rows = rows.map(|row| row.map(str::to_owned));
    let shown = |room| anstream::adapter::strip_str(&columns(&rows, room)).to_string();
    insta::assert_snapshot!(shown(55), @r"
    store.keep_days  7     /home/you/.becket/config.toml:2
    hooks.mine.run   scripts/check --all the files
                     built-in
    notice.how       bell  built-in
    ");
    insta::assert_snapshot!(shown(40), @r"
    store.keep_days  7
        /home/you/.becket/config.toml:2
    hooks.mine.run   scripts/check --all
                     the files
                     built-in
    notice.how       bell  built-in
    ");
}

#[test]
fn tells_what_is_wrong_and_what_does_not_count() {
    insta::assert_snapshot!(shown(trouble), @r#"

    /project/.becket/config.toml: not trusted: ignored
    warning: /home/config.toml:3:1: store.keep_byte is no key that becket knows (did you mean store.keep_bytes?)
      3 | keep_byte = 1
        | ^^^^^^^^^
    error: /managed.toml:2:8: daemon.idle: expected a time like "30s", "5m", "12h" (at least 1s) or "never", found "soon" (nothing of this file is in force)
      2 | idle = "soon" # é
        |        ^^^^^^
    "#);
}

#[test]
fn lists_the_files_in_their_order() {
    insta::assert_snapshot!(shown(files), @r"
    system   /system.toml                  absent
    user     /home/config.toml             in force
    project  /project/.becket/config.toml  not trusted: ignored
    local    /project/.becket/local.toml   absent
    managed  /managed.toml                 broken: not in force
    ");
}

#[test]
fn the_json_has_stable_names() {
    let value = |snapshot: &Snapshot| {
        let all = all_json(snapshot)["values"].take();
        let mut values = all.as_array().into_iter().flatten();
        let named = values.find(|value| value["key"] == "store.keep_days");
        named.map(Json::to_string).unwrap_or_default()
    };
    insta::assert_snapshot!(shown(value), @r#"{"file":"/home/config.toml","key":"store.keep_days","last_good":false,"level":"user","line":2,"value":7,"variable":null}"#);
    let table = |snapshot: &Snapshot| all_json(snapshot)["tables"][0].to_string();
    insta::assert_snapshot!(shown(table), @r#"{"file":"/home/config.toml","key":"hooks.mine","level":"user","line":5,"value":{"on":["Stop"],"run":"x"}}"#);
    let file = |snapshot: &Snapshot| all_json(snapshot)["files"][2].to_string();
    insta::assert_snapshot!(shown(file), @r#"{"exists":true,"file":"/project/.becket/config.toml","level":"project","standing":"not-trusted"}"#);
    let problem = |snapshot: &Snapshot| all_json(snapshot)["problems"][0].to_string();
    insta::assert_snapshot!(shown(problem), @r#"{"column":1,"file":"/home/config.toml","hint":"did you mean store.keep_bytes?","line":3,"message":"store.keep_byte is no key that becket knows","place":"/home/config.toml","severity":"warning"}"#);
}
