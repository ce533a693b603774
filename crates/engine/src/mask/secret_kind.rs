//! The kinds of secrets that becket knows, one row each.

/// One kind of secret.
#[derive(Debug)]
pub struct SecretKind {
    pub name: &'static str,
    /// The beginnings of a secret of this kind, or of the name before it. The fast search looks for these only.
    pub needles: &'static [&'static str],
    /// The regex of the whole secret from the needle on. Its first group is the secret; without a group, all of it.
    pub pattern: &'static str,
    /// True if the needle is not the end of a longer word.
    pub alone: bool,
    /// Returns false for a text that only looks like a secret.
    pub check: fn(&[u8]) -> bool,
}

/// All kinds. If a needle fits several, the first whose pattern fits is used.
pub const KINDS: &[SecretKind] = &[
    token("anthropic", &["sk-"], r"sk-ant-[A-Za-z0-9_-]{16,}"),
    token(
        "openai",
        &["sk-"],
        r"sk-(?:(?:proj|svcacct|admin|None|or-v1)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{20,})",
    ),
    token(
        "github",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        r"gh[pousr]_[A-Za-z0-9_]{20,}(?:\.[A-Za-z0-9_-]{8,}){0,2}",
    ),
    token("github", &["github_pat_"], r"github_pat_[A-Za-z0-9_]{20,}"),
    token(
        "gitlab",
        &["glpat-"],
        r"glpat-[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9]{2,16}){0,2}",
    ),
    token(
        "aws-key-id",
        &["AKIA", "ASIA"],
        r"(A[KS]IA[A-Z0-9]{16})(?:[^A-Za-z0-9]|$)",
    ),
    named(
        "aws-secret",
        &[
            "ecret_access_key",
            "ecret_key",
            "ecretAccessKey",
            "ECRET_ACCESS_KEY",
            "ECRET_KEY",
        ],
        r#"[A-Za-z_]+[\\"'\s]*[:=]>?[\\"'\s]*([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)"#,
    ),
    token(
        "google",
        &["AIza"],
        r"(AIza[A-Za-z0-9_-]{35})(?:[^A-Za-z0-9_-]|$)",
    ),
    token(
        "slack",
        &["xox", "xapp-"],
        r"(?:xox[a-z](?:\.xox[a-z])?|xapp-[0-9])-[A-Za-z0-9-]{10,}",
    ),
    named(
        "slack-webhook",
        &["hooks.slack.com"],
        r"hooks\.slack\.com\\?/[a-z]+\\?/([A-Za-z0-9_-]+(?:\\?/[A-Za-z0-9_-]+)+)",
    ),
    token(
        "stripe",
        &["sk_live_", "rk_live_"],
        r"[rs]k_live_[A-Za-z0-9]{10,}",
    ),
    token("npm", &["npm_"], r"npm_[A-Za-z0-9]{30,}"),
    token("pypi", &["pypi-"], r"pypi-[A-Za-z0-9_-]{40,}"),
    token("huggingface", &["hf_"], r"hf_[A-Za-z0-9]{30,}"),
    token(
        "jwt",
        &["eyJ"],
        r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{8,}",
    ),
    named(
        "bearer",
        &["uthorization", "UTHORIZATION"],
        r#"[A-Za-z]+[\\"'\s]*[:=]>?[\\"'\s]*(?:Bearer|bearer|BEARER|Basic|basic|BASIC|[Tt]oken)\s+([A-Za-z0-9._~+/=-]{8,})"#,
    ),
    SecretKind {
        check: has_digit,
        ..token(
            "bearer",
            &["Bearer ", "bearer ", "BEARER "],
            r"[A-Za-z]+\s+([A-Za-z0-9._~+/=-]{16,})",
        )
    },
    SecretKind {
        check: is_no_placeholder,
        ..named(
            "url-password",
            &["://"],
            r#"://[^\x00-\x20/?#:@"'`<>\\\x7f-\xff]*:([^\x00-\x20/?#"'`<>\\\x7f-\xff]+)@"#,
        )
    },
    named(
        "claude-token",
        &["CLAUDE_CODE_MESSAGING_TOKEN"],
        r#"[A-Z_]+[\\"'\s]*[:=]>?[\\"'\s]*([A-Za-z0-9._~+/=-]{8,})"#,
    ),
    named(
        PRIVATE_KEY,
        &["-----BEGIN "],
        r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----",
    ),
];

/// The one kind whose end is searched apart from its pattern.
pub const PRIVATE_KEY: &str = "private-key";

/// Escapes that may hide a needle in an unread payload.
pub const HIDING: &[&str] = &[r":\/\/", r"\u00"];

const fn token(
    name: &'static str,
    needles: &'static [&'static str],
    pattern: &'static str,
) -> SecretKind {
    SecretKind {
        name,
        needles,
        pattern,
        alone: true,
        check: |_| true,
    }
}

const fn named(
    name: &'static str,
    needles: &'static [&'static str],
    pattern: &'static str,
) -> SecretKind {
    SecretKind {
        alone: false,
        ..token(name, needles, pattern)
    }
}

/// Returns false for prose such as "Bearer token-based-authentication".
fn has_digit(secret: &[u8]) -> bool {
    secret.iter().any(u8::is_ascii_digit)
}

/// Returns false for placeholders: `$PASSWORD`, `${password}`, `{password}`, `$(pass show db)`, `%s` and `***`.
fn is_no_placeholder(secret: &[u8]) -> bool {
    match secret {
        [b'$', b'{' | b'(', ..] | [b'{', .., b'}'] | b"%s" => false,
        [b'$', name @ ..] => !name
            .iter()
            .all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_')),
        _ => secret.iter().any(|byte| *byte != b'*'),
    }
}
