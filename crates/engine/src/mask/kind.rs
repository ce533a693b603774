//! The kinds of secrets that becket knows, one row each.

/// One kind of secret.
#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    /// What a secret of the kind, or the name before it, begins with: the fast search looks for
    /// these alone.
    pub needles: &'static [&'static str],
    /// The whole of it from the needle on. The first group is the secret; without one, all of it.
    pub pattern: &'static str,
    /// The needle stands alone: it is not the end of a longer word.
    pub alone: bool,
    /// Says no to what only looks like one.
    pub check: fn(&[u8]) -> bool,
}

/// Where a needle fits several kinds, the first whose pattern fits counts.
pub const KINDS: &[Kind] = &[
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
    Kind {
        check: has_digit,
        ..token(
            "bearer",
            &["Bearer ", "bearer ", "BEARER "],
            r"[A-Za-z]+\s+([A-Za-z0-9._~+/=-]{16,})",
        )
    },
    Kind {
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

/// The one kind whose end is looked for apart from its pattern.
pub const PRIVATE_KEY: &str = "private-key";

/// Escapes behind which a needle may hide in a payload as it came.
pub const HIDING: &[&str] = &[r":\/\/", r"\u00"];

const fn token(
    name: &'static str,
    needles: &'static [&'static str],
    pattern: &'static str,
) -> Kind {
    Kind {
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
) -> Kind {
    Kind {
        alone: false,
        ..token(name, needles, pattern)
    }
}

/// "Bearer token-based-authentication" is prose.
fn has_digit(secret: &[u8]) -> bool {
    secret.iter().any(u8::is_ascii_digit)
}

/// `$PASSWORD`, `${password}`, `{password}`, `$(pass show db)`, `%s` and `***` stand for a secret.
fn is_no_placeholder(secret: &[u8]) -> bool {
    let is_name = |name: &[u8]| {
        name.iter()
            .all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'))
    };
    match secret {
        [b'$', b'{' | b'(', ..] | [b'{', .., b'}'] | b"%s" => false,
        [b'$', name @ ..] => !is_name(name),
        _ => secret.iter().any(|byte| *byte != b'*'),
    }
}
