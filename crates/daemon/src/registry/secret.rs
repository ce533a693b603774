//! Sessions are stored, and whoever writes titles, prompts and errors may write a secret into them.

use std::borrow::Cow;

use becket_engine::mask::Masker;
use becket_wire::Head;

/// More than is kept of any text, and of a secret that begins in what is kept.
const LONGEST: usize = 64 << 10;

type Text = for<'x, 'a> fn(&'x mut Head<'a>) -> &'x mut Option<Cow<'a, str>>;

/// The head of an event as a session may keep it. Texts are masked before they are cut: half a
/// secret is not known for one.
pub(super) fn without_secrets<'h, 'a>(head: &'h Head<'a>, masker: &Masker) -> Cow<'h, Head<'a>> {
    let texts: [Text; 7] = [
        |head| &mut head.prompt,
        |head| &mut head.session_title,
        |head| &mut head.error,
        |head| &mut head.reason,
        |head| &mut head.agent_type,
        |head| &mut head.mcp_server_name,
        |head| &mut head.last_assistant_message,
    ];
    let failed = head.event.as_deref() == Some("StopFailure");
    let failure = head.last_assistant_message.clone().filter(|_| failed);
    let found = [
        &head.prompt,
        &head.session_title,
        &head.error,
        &head.reason,
        &head.agent_type,
        &head.mcp_server_name,
        // Only a failed turn's is kept.
        &failure,
    ];
    let mut masked = Cow::Borrowed(head);
    for (text, found) in texts.into_iter().zip(found) {
        if let Some(clean) = found.as_deref().and_then(|found| mask(found, masker)) {
            *text(masked.to_mut()) = Some(Cow::Owned(clean));
        }
    }
    masked
}

/// None if there is no secret in it.
fn mask(text: &str, masker: &Masker) -> Option<String> {
    let json = serde_json::to_vec(&text[..text.floor_char_boundary(LONGEST)]).ok()?;
    let masked = masker.mask(&json);
    (masked.count > 0).then(|| serde_json::from_slice(&masked.bytes).ok())?
}
