//! Secrets of every kind in their surroundings, and what only looks like one.

use serde_json::json;
use sha2::{Digest, Sha256};

use super::*;

const KEY: [u8; 32] = [7; 32];

fn masker() -> Masker {
    let mut config = Config::default();
    config.mask.enabled = true;
    Masker::from_config(KEY, &config)
}

fn masker_with(name: &str, pattern: &str) -> Masker {
    let mut config = Config::default();
    config.mask.enabled = true;
    config.mask.patterns.insert(name.into(), pattern.into());
    Masker::from_config(KEY, &config)
}

fn masked(masker: &Masker, payload: &str) -> (String, u32) {
    let Masked { bytes, count } = masker.mask(payload.as_bytes());
    (String::from_utf8(bytes.into_owned()).unwrap(), count)
}

fn mark(kind: &str, secret: &str) -> String {
    let digest = Sha256::digest([&KEY, secret.as_bytes()].concat());
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("«masked:{kind}:{}»", &hash[..8])
}

/// A secret in its surroundings.
#[derive(Debug, Clone)]
struct Sample {
    kind: &'static str,
    before: &'static str,
    secret: String,
    after: &'static str,
}

/// One secret of every kind and form. Put together here, so that no scanner takes them for real.
fn samples() -> Vec<Sample> {
    let alnum = |n: usize| "aB3dE5gH7j".repeat(n / 10 + 1)[..n].to_owned();
    let upper = |n: usize| "A2C4E6G8".repeat(n / 8 + 1)[..n].to_owned();
    let base64 = |n: usize| "MIIEow/+AB".repeat(n / 10 + 1)[..n].to_owned();
    let dashes = "-".repeat(5);
    let pem = |label: &str, line_end: &str| {
        format!(
            "{dashes}BEGIN {label}{dashes}{line_end}{}{line_end}{}{line_end}{dashes}END {label}{dashes}",
            base64(64),
            base64(20)
        )
    };
    let mut samples: Vec<Sample> = [
        ("anthropic", format!("sk-{}-api03-{}", "ant", alnum(40))),
        ("openai", format!("sk-{}", alnum(48))),
        ("openai", format!("sk-{}-{}", "proj", alnum(60))),
        ("github", format!("github_{}_{}", "pat", alnum(59))),
        ("gitlab", format!("gl{}-{}", "pat", alnum(20))),
        ("aws-key-id", format!("AK{}{}", "IA", upper(16))),
        ("aws-key-id", format!("AS{}{}", "IA", upper(16))),
        ("google", format!("AI{}{}", "za", alnum(35))),
        ("slack", format!("xo{}-1234567890-{}", "xb", alnum(24))),
        ("stripe", format!("sk_{}_{}", "live", alnum(24))),
        ("stripe", format!("rk_{}_{}", "live", alnum(24))),
        ("npm", format!("np{}_{}", "m", alnum(36))),
        ("pypi", format!("py{}-AgEIcHlwaS5vcmc{}", "pi", alnum(60))),
        ("huggingface", format!("h{}_{}", "f", alnum(34))),
        ("jwt", format!("ey{0}{1}.ey{0}{1}.{1}", "J", alnum(30))),
        ("private-key", pem("RSA PRIVATE KEY", "\n")),
        ("private-key", pem("PRIVATE KEY", "\r\n")),
        ("private-key", pem("OPENSSH PRIVATE KEY", "\\n")),
        ("private-key", pem("PGP PRIVATE KEY BLOCK", "\n")),
    ]
    .into_iter()
    .map(|(kind, secret)| (kind, "", secret, ""))
    .chain(
        ["p", "o", "u", "s", "r"]
            .map(|letter| ("github", "", format!("gh{letter}_{}", alnum(36)), "")),
    )
    .chain([
        ("aws-secret", "aws_secret_access_key = ", base64(40), ""),
        (
            "aws-secret",
            "export AWS_SECRET_ACCESS_KEY=",
            base64(40),
            "",
        ),
        ("aws-secret", r#""SecretAccessKey": ""#, base64(40), "\","),
        (
            "slack-webhook",
            "https://hooks.slack.com/services/",
            format!("T0/B0/{}", alnum(24)),
            "",
        ),
        ("bearer", "Authorization: Bearer ", alnum(9), ""),
        (
            "bearer",
            r#"\"authorization\": \"Basic "#,
            alnum(12),
            r#"\""#,
        ),
        ("bearer", "-H 'bearer ", alnum(20), "'"),
        (
            "url-password",
            "postgres://me:",
            "p@ss:w0rd!".into(),
            "@db:5432/x",
        ),
        ("url-password", "redis://:", "x".into(), "@host"),
        (
            "claude-token",
            "CLAUDE_CODE_MESSAGING_TOKEN=",
            alnum(12),
            "",
        ),
    ])
    .map(|(kind, before, secret, after)| Sample {
        kind,
        before,
        secret,
        after,
    })
    .collect();
    // What stands before it may end in a letter and still be no part of it.
    for before in [r"\n", r"x\u000a", "key%3D", "\u{1b}[1;31m", r"\033[0K"] {
        let secret = format!("gh{}_{}", "p", alnum(36));
        samples.push(Sample {
            kind: "github",
            before,
            secret,
            after: "",
        });
    }
    samples
}

#[test]
fn masks_every_kind_and_nothing_beside_it() {
    for Sample {
        kind,
        before,
        secret,
        after,
    } in samples()
    {
        let text = format!("say {before}{secret}{after} and more");
        let expected = format!("say {before}{}{after} and more", mark(kind, &secret));
        // A text that is no JSON is read as if it had escapes, so that cut-off JSON is masked too.
        let as_read = format!(
            "say {before}{}{after} and more",
            mark(kind, &secret.replace("\\n", "\n"))
        );
        assert_eq!(masked(&masker(), &text), (as_read, 1), "as text");
        let payload = json!({"k": [1, {"x": text}], "z": null}).to_string();
        let expected = json!({"k": [1, {"x": expected}], "z": null}).to_string();
        assert_eq!(masked(&masker(), &payload), (expected, 1), "as JSON");
    }
}

#[test]
fn what_is_no_secret_stays() {
    let hex = "0123456789abcdef";
    let base64 = "iVBORw0KGgoAAAANSUhEUgAAAAUA/AIzaAKIA+eyJhbGciOi".repeat(40);
    for text in [
        "toolu_01A09q90qw90lq917835lq9AKIA".to_owned(),
        "2fcdb48c-d97a-4615-9177-974dd2dc6476".to_owned(),
        format!("commit {hex}{hex}01234567"),
        format!("data:image/png;base64,{base64}=="),
        format!("task-{hex}{hex} disk-{hex}{hex}"),
        "import sk-learn; sk-ant is a prefix, so is ghp_ and github_pat_".to_owned(),
        "npm_config_registry=https://registry.example.com:4873/@scope/name".to_owned(),
        "The Bearer token-based-authentication-scheme".to_owned(),
        "curl -H \"Authorization: Bearer $TOKEN\" https://user:${PASSWORD}@host".to_owned(),
        "postgres://user:$PGPASSWORD@host postgres://user:***@host".to_owned(),
        "CLAUDE_CODE_MESSAGING_TOKEN=<redacted>".to_owned(),
        "aws_secret_access_key = <your key>".to_owned(),
        format!(
            "grep '{0}BEGIN PRIVATE KEY{0}' and '{0}END PRIVATE KEY{0}'",
            "-----"
        ),
        format!(
            "{0}BEGIN PUBLIC KEY{0}\n{base64}\n{0}END PUBLIC KEY{0}",
            "-----"
        ),
        "http://localhost:3000/x?y=z@w ssh://git@github.com:22/a".to_owned(),
    ] {
        assert_eq!(masked(&masker(), &text), (text.clone(), 0));
        let json = json!({ "x": text }).to_string();
        assert_eq!(masked(&masker(), &json), (json.clone(), 0));
    }
}

#[test]
fn escapes_hide_nothing() {
    let secret = format!("gh{}_{}", "p", "a1B2".repeat(9));
    let expected = mark("github", &secret);
    let hidden = secret.replacen('g', r"\u0067", 1).replace('B', r"\u0042");
    for (payload, expected) in [
        (
            format!(r#"["\n{secret}\n"]"#),
            format!(r#"["\n{expected}\n"]"#),
        ),
        (
            format!(r#"["\\{secret}\""]"#),
            format!(r#"["\\{expected}\""]"#),
        ),
        (format!(r#"["{hidden}"]"#), format!(r#"["{expected}"]"#)),
        (
            format!(r#"["x\u00e9{hidden}\u0021"]"#),
            format!(r#"["x\u00e9{expected}\u0021"]"#),
        ),
    ] {
        assert_eq!(masked(&masker(), &payload), (expected, 1));
    }
    let (text, count) = masked(&masker(), r#"["https:\/\/me:hunter2@host\/"]"#);
    assert_eq!(count, 1, "{text}");
}

#[test]
fn a_key_names_a_secret_and_stays_as_it_is() {
    let token = "abcdefgh12";
    let github = format!("gh{}_{}", "p", "a1B2".repeat(9));
    let payload = json!({
        "CLAUDE_CODE_MESSAGING_TOKEN": token,
        "env": {"AWS_SECRET_ACCESS_KEY": "Ab1/".repeat(10)},
        "headers": {"Authorization": format!("Bearer {token}")},
        &github: "value",
    });
    let expected = json!({
        "CLAUDE_CODE_MESSAGING_TOKEN": mark("claude-token", token),
        "env": {"AWS_SECRET_ACCESS_KEY": mark("aws-secret", &"Ab1/".repeat(10))},
        "headers": {"Authorization": format!("Bearer {}", mark("bearer", token))},
        &github: "value",
    });
    let (text, count) = masked(&masker(), &payload.to_string());
    assert_eq!((text, count), (expected.to_string(), 3));
}

#[test]
fn a_private_key_that_was_cut_off_is_masked_too() {
    let secret = format!(
        "{0}BEGIN EC PRIVATE KEY{0}\n{1}\n{1}",
        "-----",
        "Ab1/".repeat(16)
    );
    let (text, count) = masked(
        &masker(),
        &json!([format!("{secret}… and so on")]).to_string(),
    );
    let expected = json!([format!("{}… and so on", mark("private-key", &secret))]);
    assert_eq!((text, count), (expected.to_string(), 1));
}

#[test]
fn a_payload_that_is_no_json_is_masked_as_text() {
    let secret = format!("gh{}_{}", "p", "a1B2".repeat(9));
    let expected = mark("github", &secret);
    for (before, after) in [
        ("", ""),
        (r#"{"cut": "off\n"#, ""),
        ("C:\\new\\", "\\x"),
        ("\0", "\""),
    ] {
        let (text, count) = masked(&masker(), &format!("{before}{secret}{after}"));
        assert_eq!((text, count), (format!("{before}{expected}{after}"), 1));
    }
    let bytes = [b"\xff ", secret.as_bytes(), b" \xff"].concat();
    let Masked { bytes, count } = masker().mask(&bytes);
    assert_eq!(
        (bytes.as_ref(), count),
        (
            [b"\xff ", expected.as_bytes(), b" \xff"].concat().as_ref(),
            1
        )
    );
}

#[test]
fn users_patterns_mask_their_group_or_all() {
    let whole = masker_with("acme", "acme-[0-9]+");
    let text = |inside: &str| format!(r#"["x{inside}y"]"#);
    assert_eq!(
        masked(&whole, &text("acme-12")),
        (text(&mark("acme", "acme-12")), 1)
    );
    let group = masker_with("pin", "pin=([^;]+)");
    assert_eq!(
        masked(&group, &text(r"pin=é\n1;")),
        (text(&format!("pin={};", mark("pin", "é\n1"))), 1)
    );
    let half = masker_with("half", r"\xc3");
    assert_eq!(
        masked(&half, &text(r"aé\u00e9b")),
        (text(&format!("a{0}{0}b", mark("half", "é"))), 2)
    );
    for (name, pattern) in [("a b", "x"), ("", "x"), ("a", "("), ("a", "x*")] {
        assert!(check_pattern(name, pattern).is_err(), "{name} {pattern}");
    }
}
