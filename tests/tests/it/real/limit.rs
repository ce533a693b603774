//! What Claude Code says when a usage limit is reached, and when it resets.

use std::path::Path;

use becket_engine::limit;
use becket_tests::model::{Turn, error};
use becket_tests::story::{Event, now_ms, story};
use becket_tests::wait::{self, PATIENCE};
use jiff::tz::TimeZone;

/// The StopFailure of a turn that is answered so. Only a subscription has limits that reset.
fn failure(subscription: bool, answer: Turn, look: impl FnOnce(&Event)) {
    story(|given| {
        let mut given = given
            .on("do it", [answer])
            .needs(&["StopFailure"])
            .env("CLAUDE_CODE_MAX_RETRIES", "1");
        if subscription {
            let given_key = given.env("ANTHROPIC_API_KEY", "");
            given = given_key.env("CLAUDE_CODE_OAUTH_TOKEN", "dummy");
        }
        let story = given.begin()?;
        let person = story.person()?;

        person.submits("do it");
        let failure = story.wait_event("StopFailure");
        person.ready();
        look(&failure);
        person.leaves();
        Ok(())
    });
}

fn rejected() -> Turn {
    error(429, "rate_limit_error", "Too much. Try again later.")
}

#[test]
fn a_limit_names_its_reset_in_the_event_and_to_the_second_in_the_transcript() {
    let now = now_ms();
    let resets_at = now / 1000 + 3 * 3600;
    let answer = rejected()
        .header("anthropic-ratelimit-unified-status", "rejected")
        .header("anthropic-ratelimit-unified-reset", &resets_at.to_string())
        .header(
            "anthropic-ratelimit-unified-representative-claim",
            "five_hour",
        )
        .header("retry-after", "10800");
    failure(true, answer, |failure| {
        assert!(limit::is_limit(failure.text("error")));
        let said = failure.text("last_assistant_message");
        let named = limit::reset(said, now, &TimeZone::UTC);
        assert_eq!(named, Some(resets_at / 60 * 60_000), "{said}");
        let transcript = Path::new(failure.text("transcript_path"));
        // The line is written some time after the event.
        let found = wait::until(PATIENCE, || limit::at_end(transcript));
        assert_eq!(found, Some(resets_at * 1000));
    });
}

#[test]
fn a_limit_of_an_api_key_names_no_reset() {
    failure(false, rejected(), |failure| {
        assert!(limit::is_limit(failure.text("error")));
        let said = failure.text("last_assistant_message");
        assert!(said.contains("Request rejected (429)"), "{said}");
        assert_eq!(limit::reset(said, 0, &TimeZone::UTC), None);
    });
}
