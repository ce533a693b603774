//! The public prices of models and the sizes of their windows. Checked against the figures of Claude Code
//! 2.1.325. A model that is not in the table has no price.

/// Tokens of one reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    pub input: u64,
    pub cache_read: u64,
    /// Written to the cache for five minutes.
    pub cache_5m: u64,
    /// Written to the cache for an hour.
    pub cache_1h: u64,
    pub output: u64,
}

impl Tokens {
    /// Returns the number of tokens in the model's context when it replied.
    pub fn context(&self) -> u64 {
        [self.cache_read, self.cache_5m, self.cache_1h]
            .iter()
            .fold(self.input, |sum, more| sum.saturating_add(*more))
    }
}

/// The price of output, as a multiple of the price of input: the same with every model so far.
const OUTPUT: f64 = 5.0;
/// The prices of writing to the cache.
const CACHE_5M: f64 = 1.25;
const CACHE_1H: f64 = 2.0;

const SMALL_WINDOW: u64 = 200_000;
const LARGE_WINDOW: u64 = 1_000_000;

/// Returns the cost of these tokens with this model, in dollars.
pub fn cost(model: &str, tokens: &Tokens) -> Option<f64> {
    let (family, version) = family_and_version(model)?;
    // Dollars per million tokens.
    let input = match (family, version) {
        ("opus", (3, 0) | (4, 0 | 1)) => 15.0,
        ("opus", (4, 5..=8) | (5, 0)) => 5.0,
        ("opus", (5, 5)) => 4.0,
        ("sonnet", (3, 0 | 5 | 7) | (4, 0 | 5 | 6)) => 3.0,
        ("sonnet", (5, 0 | 5)) => 2.0,
        ("haiku", (3, 0)) => 0.25,
        ("haiku", (3, 5)) => 0.8,
        ("haiku", (4, 5)) => 1.0,
        ("haiku", (5, 5)) if tokens.context() > 100_000 => 0.5,
        ("haiku", (5, 5)) => 0.1,
        ("fable", (5, 0)) => 10.0,
        _ => return None,
    };
    let cache_read = match (family, version) {
        ("opus" | "sonnet", (5, 5)) => 0.05,
        _ => 0.1,
    };
    let parts = [
        (tokens.input, 1.0),
        (tokens.cache_read, cache_read),
        (tokens.cache_5m, CACHE_5M),
        (tokens.cache_1h, CACHE_1H),
        (tokens.output, OUTPUT),
    ];
    let weighed: f64 = parts.iter().map(|(n, factor)| *n as f64 * factor).sum();
    Some(weighed * input / 1e6)
}

/// Returns the size of this model's window, in tokens.
pub fn window(model: &str) -> u64 {
    let large = family_and_version(model).is_some_and(|(family, version)| {
        version >= (5, 0) || (family == "opus" && version >= (4, 7))
    });
    if large || model.ends_with("[1m]") {
        LARGE_WINDOW
    } else {
        SMALL_WINDOW
    }
}

/// Reads a model id: `claude-opus-4-5-20251101`, `claude-3-5-haiku-latest`,
/// `us.anthropic.claude-sonnet-5-v1:0`, `claude-sonnet-4-5[1m]`.
fn family_and_version(id: &str) -> Option<(&str, (u32, u32))> {
    let name = &id[id.find("claude-")?..];
    let name = name.split(['[', '@', ':']).next().unwrap_or_default();
    let mut family = None;
    let mut numbers = Vec::new();
    for word in name.split('-').skip(1) {
        match word {
            "opus" | "sonnet" | "haiku" | "fable" => family = Some(word),
            // A date has eight digits.
            _ if word.len() <= 2 => numbers.extend(word.parse::<u32>().ok()),
            _ => {}
        }
    }
    let minor = numbers.get(1).copied().unwrap_or(0);
    Some((family?, (*numbers.first()?, minor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Tokens = Tokens {
        input: 4000,
        cache_read: 100_000,
        cache_5m: 1000,
        cache_1h: 2000,
        output: 50,
    };

    #[track_caller]
    fn costs(model: &str, tokens: &Tokens, dollars: f64) {
        let found = cost(model, tokens).unwrap_or(f64::NAN);
        assert!((found - dollars).abs() < 1e-9, "{model}: {found}");
    }

    /// What the real program said for the same tokens.
    #[test]
    fn the_price_is_that_of_claude_code() {
        for (model, dollars) in [
            ("claude-opus-5-5", 0.058),
            ("claude-opus-5", 0.0975),
            ("claude-opus-4-8", 0.0975),
            ("claude-opus-4-5-20251101", 0.0975),
            ("claude-sonnet-5-5", 0.029),
            ("claude-sonnet-5", 0.039),
            ("claude-sonnet-4-5[1m]", 0.0585),
            ("claude-sonnet-4-20250514", 0.0585),
            ("claude-3-7-sonnet-latest", 0.0585),
            ("claude-haiku-5-5", 0.009_75),
            ("claude-haiku-4-5", 0.0195),
            ("claude-3-5-haiku-latest", 0.0156),
            ("claude-fable-5", 0.195),
        ] {
            costs(model, &SOME, dollars);
        }
    }

    #[test]
    fn a_long_prompt_may_cost_more() {
        let prompt = |input| Tokens {
            input,
            output: 50,
            ..Tokens::default()
        };
        costs("claude-haiku-5-5", &prompt(99_000), 99_250.0 * 0.1 / 1e6);
        costs("claude-haiku-5-5", &prompt(101_000), 101_250.0 * 0.5 / 1e6);
    }

    #[test]
    fn an_unknown_model_has_no_price() {
        for model in [
            "",
            "<synthetic>",
            "gpt-9",
            "claude-",
            "claude-opus",
            "claude-opus-9-1",
        ] {
            assert_eq!(cost(model, &SOME), None, "{model}");
        }
        costs("us.anthropic.claude-opus-4-5-20251101-v1:0", &SOME, 0.0975);
    }

    #[test]
    fn windows_are_as_claude_code_has_them() {
        for large in [
            "claude-opus-5-5",
            "claude-opus-4-7",
            "claude-haiku-5-5",
            "claude-sonnet-4-5[1m]",
        ] {
            assert_eq!(window(large), LARGE_WINDOW, "{large}");
        }
        for small in [
            "claude-opus-4-6",
            "claude-sonnet-4-5",
            "claude-3-5-haiku-latest",
            "x",
        ] {
            assert_eq!(window(small), SMALL_WINDOW, "{small}");
        }
    }
}
