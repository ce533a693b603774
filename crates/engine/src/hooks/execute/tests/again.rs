//! What hooks made of an input, judged like the input itself.

use std::cell::RefCell;

use becket_wire::answer::Opinion;
use serde_json::json;

use super::*;

#[test]
fn what_hooks_make_of_an_input_is_judged_again() {
    let yard = Yard::new();
    let rewrite = |name, command: &str| {
        let say = json!({"hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": "allow",
            "updatedInput": {"command": command},
        }});
        rewriting(name, &format!("echo '{say}'"))
    };
    let said = |opinion: Option<Opinion>, by: &str| {
        let verdict = Verdict::silent(EventName::PreToolUse);
        let mut answer = verdict.answer().clone();
        answer.tell("a word");
        if let Some(opinion) = opinion {
            answer.give(opinion).unwrap();
        }
        verdict.merged(answer, Some(by.to_owned()))
    };
    let run = |own: Verdict, hooks: Vec<Hook>| {
        let plan = yard.plan(&EventName::PreToolUse, hooks);
        let (done, asked) = (RefCell::new(None), RefCell::new(Vec::new()));
        let judge = |payload: &[u8]| {
            let head: serde_json::Value = serde_json::from_slice(payload).unwrap();
            let command = head["tool_input"]["command"].as_str().unwrap().to_owned();
            let deny = Opinion::Deny {
                reason: "no".to_owned(),
            };
            let opinion = (command == "rm").then_some(deny);
            asked.borrow_mut().push(command);
            said(opinion, "a guard")
        };
        let answered = |all: Done| drop(done.replace(Some(all)));
        plan.carry_out(&yard.kit(), &Cancel::new(), own, judge, answered, |_| ());
        let Done { own, merged, .. } = done.into_inner().unwrap();
        assert_eq!(merged.answer.messages(), ["a word"], "twice, or not at all");
        let decision = own.merged(merged.answer, merged.by).decision().unwrap();
        (decision.answer, decision.by, asked.into_inner())
    };
    let words = |answer: &str, by: &str, asked: &[&str]| {
        let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
        (answer.to_owned(), Some(by.to_owned()), asked)
    };
    let silent = || said(None, "becket");
    let last = run(silent(), vec![rewrite("a", "ls -l"), rewrite("b", "rm")]);
    assert_eq!(last, words("deny", "a guard", &["rm"]));
    let ask = Opinion::Ask {
        reason: "is that so?".to_owned(),
    };
    let asks = || said(Some(ask.clone()), "a first guard");
    let first = run(asks(), vec![rewrite("a", "pwd")]);
    assert_eq!(first, words("ask", "a first guard", &["pwd"]));
    let both = run(asks(), vec![rewrite("a", "rm")]);
    assert_eq!(both, words("deny", "a guard", &["rm"]));
    let only_between = run(silent(), vec![rewrite("a", "rm"), rewrite("b", "pwd")]);
    assert_eq!(only_between, words("allow", "a, b", &["pwd"]));
    let unchanged = run(
        silent(),
        vec![hook(
            "a",
            r#"echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}'"#,
        )],
    );
    assert_eq!(unchanged, words("allow", "a", &[]));
}
