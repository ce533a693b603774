//! Whether Claude stopped only to ask: then nobody pushes it on.

/// What ends many a finished work: an offer, which waits for no answer.
const OFFERS: &[&str] = &[
    "anything else",
    "is there anything",
    "would you like me to also",
    "would you like me to add",
    "do you want me to also",
    "want me to also",
    "shall i also",
    "should i also",
    "would you like any",
];

/// Whether the last words of a message are a question that waits for an answer.
pub fn asks(message: &str) -> bool {
    let closing = |c: char| c.is_whitespace() || "*_`\"')]”’»".contains(c);
    let message = message.trim_end_matches(closing);
    if !message.ends_with(['?', '？']) {
        return false;
    }
    let last = message.trim_end_matches(['?', '？']);
    let sentence = last.rsplit(['.', '!', '?', '\n', '？', '。']).next();
    let sentence = sentence.unwrap_or(last).to_lowercase();
    !OFFERS.iter().any(|offer| sentence.contains(offer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_waits_for_an_answer() {
        for text in [
            "Which database should I use?",
            "I see two ways.\n\n1. a\n2. b\n\nWhich one do you prefer?\n",
            "**Should I delete the old table?**",
            "Soll ich weitermachen (ja oder nein?)",
            "続けますか？",
            "Is there anything else? 。どちらですか？",
        ] {
            assert!(asks(text), "{text}");
        }
    }

    #[test]
    fn an_end_is_no_question() {
        for text in [
            "",
            "Done.",
            "Why? Because it was wrong.",
            "All done! Is there anything else you need?",
            "Fixed. Would you like me to also add tests?",
            "完了。",
        ] {
            assert!(!asks(text), "{text}");
        }
    }
}
