//! What a tmux server shows of the sessions in its panes, what it should show, and the commands
//! that lead from the one to the other.

use std::collections::BTreeMap;

use becket_wire::session::Display;

use super::server::{Words, words};

/// The server's option that says whether its panes are painted. It stands in the server, so that
/// another daemon finds it.
pub const PAINT: &str = "@becket_paint";
const TEXT: &str = "@becket";
const STATE: &str = "@becket_state";
/// What a painted pane had before: `=VALUE`, or `-` for nothing of its own.
const BEFORE: [(&str, &str); 2] = [
    ("window-style", "@becket_style"),
    ("window-active-style", "@becket_active_style"),
];

/// What a server should show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    pub text: String,
    pub panes: BTreeMap<String, Display>,
    /// None: as it is.
    pub paint: Option<bool>,
}

/// What a server shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    pub paint: bool,
    pub panes: BTreeMap<String, Pane>,
}

/// One pane that exists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pane {
    state: Option<String>,
    /// What the styles were before it was painted, in the order of [`BEFORE`].
    before: [Option<String>; 2],
}

impl Pane {
    fn is_painted(&self) -> bool {
        self.before.iter().any(Option::is_some)
    }
}

/// The background of a pane by what its session does.
pub fn style(display: Display) -> &'static str {
    match display {
        Display::Error => "bg=colour52",
        Display::Attention => "bg=colour58",
        Display::Working => "bg=colour17",
        Display::Checked => "bg=colour236",
        Display::Done => "bg=colour22",
    }
}

/// Asks for what is shown.
pub fn look() -> Words {
    let fields = [PAINT, STATE, BEFORE[0].1, BEFORE[1].1];
    let fields = fields.map(|option| format!("#{{{option}}}")).join("\t");
    words(&["list-panes", "-a", "-F", &format!("#{{pane_id}}\t{fields}")])
}

/// Reads the answer to [`look`].
pub fn shown(answer: &str) -> Shown {
    let mut shown = Shown::default();
    for line in answer.lines() {
        let mut fields = line.split('\t');
        let Some(id) = fields.next().filter(|id| id.starts_with('%')) else {
            continue;
        };
        let mut next = || {
            fields
                .next()
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        shown.paint |= next().is_some_and(|paint| paint == "on");
        let pane = Pane {
            state: next(),
            before: [next(), next()],
        };
        shown.panes.insert(id.to_owned(), pane);
    }
    shown
}

/// The panes that are to be painted and are not: their own styles have to be asked for first.
pub fn unpainted(shown: &Shown, wanted: &Wanted) -> Vec<String> {
    if !wanted.paint.unwrap_or(shown.paint) {
        return Vec::new();
    }
    let panes = shown.panes.iter();
    let panes = panes.filter(|(id, pane)| !pane.is_painted() && wanted.panes.contains_key(*id));
    panes.map(|(id, _)| id.clone()).collect()
}

/// Asks for the styles that these panes have of their own.
pub fn look_at_styles(panes: &[String]) -> Vec<Words> {
    let each = panes.iter().flat_map(|id| {
        let mark = words(&["display-message", "-p", "-t", id, "#{pane_id}"]);
        [mark, words(&["show-options", "-p", "-t", id])]
    });
    each.collect()
}

/// Reads the answer to [`look_at_styles`]: what each pane had before.
pub fn styles(answer: &str) -> BTreeMap<String, [String; 2]> {
    let mut all: BTreeMap<String, [String; 2]> = BTreeMap::new();
    let mut pane = None;
    for line in answer.lines() {
        if line.starts_with('%') && !line.contains(' ') {
            all.insert(line.to_owned(), BEFORE.map(|_| "-".to_owned()));
            pane = Some(line.to_owned());
        }
        let (Some(pane), Some((option, value))) = (&pane, line.split_once(' ')) else {
            continue;
        };
        let at = BEFORE.iter().position(|(name, _)| *name == option);
        if let (Some(at), Some(styles)) = (at, all.get_mut(pane)) {
            styles[at] = format!("={}", unquoted(value));
        }
    }
    all
}

/// tmux prints a value in double quotes where it has to be.
fn unquoted(value: &str) -> String {
    let inner = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    match inner {
        None => value.to_owned(),
        Some(inner) => {
            let mut plain = String::new();
            let mut letters = inner.chars();
            while let Some(letter) = letters.next() {
                plain.extend(if letter == '\\' {
                    letters.next()
                } else {
                    Some(letter)
                });
            }
            plain
        }
    }
}

/// The commands that make the server show what is wanted. `before` is what [`styles`] found.
pub fn commands(
    shown: &Shown,
    wanted: &Wanted,
    before: &BTreeMap<String, [String; 2]>,
) -> Vec<Words> {
    let mut commands = vec![words(&["set-option", "-g", TEXT, &wanted.text])];
    let paint = wanted.paint.unwrap_or(shown.paint);
    if paint != shown.paint {
        commands.push(if paint {
            words(&["set-option", "-s", PAINT, "on"])
        } else {
            words(&["set-option", "-su", PAINT])
        });
    }
    for (id, pane) in &shown.panes {
        let display = wanted.panes.get(id);
        match display {
            Some(display) if pane.state.as_deref() != Some(display.word()) => {
                commands.push(set(id, STATE, display.word()));
            }
            None if pane.state.is_some() => commands.push(unset(id, STATE)),
            _ => {}
        }
        match display.filter(|_| paint) {
            Some(display) => commands.extend(painting(id, pane, *display, before.get(id))),
            None => commands.extend(unpainting(id, pane)),
        }
    }
    commands
}

fn painting(id: &str, pane: &Pane, display: Display, before: Option<&[String; 2]>) -> Vec<Words> {
    let painted = pane.is_painted();
    if painted && pane.state.as_deref() == Some(display.word()) {
        return Vec::new();
    }
    let mut commands = Vec::new();
    if !painted {
        // Without knowing what it had, there would be no way back.
        let Some(before) = before else {
            return commands;
        };
        let kept = BEFORE.iter().zip(before);
        commands.extend(kept.map(|((_, kept), value)| set(id, kept, value)));
    }
    commands.extend(BEFORE.map(|(option, _)| set(id, option, style(display))));
    commands
}

fn unpainting(id: &str, pane: &Pane) -> Vec<Words> {
    let mut commands = Vec::new();
    for ((option, kept), before) in BEFORE.iter().zip(&pane.before) {
        let Some(before) = before else { continue };
        commands.push(match before.strip_prefix('=') {
            Some(value) => set(id, option, value),
            None => unset(id, option),
        });
        commands.push(unset(id, kept));
    }
    commands
}

fn set(pane: &str, option: &str, value: &str) -> Words {
    words(&["set-option", "-p", "-t", pane, option, value])
}

fn unset(pane: &str, option: &str) -> Words {
    words(&["set-option", "-pu", "-t", pane, option])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(panes: &[(&str, Display)], paint: Option<bool>) -> Wanted {
        Wanted {
            text: "!1".to_owned(),
            panes: panes.iter().map(|(id, d)| ((*id).to_owned(), *d)).collect(),
            paint,
        }
    }

    fn told(commands: &[Words]) -> Vec<String> {
        commands.iter().map(|words| words.join(" ")).collect()
    }

    const ANSWER: &str = "%0\t\t\t\t\n%1\ton\tworking\t=bg=red\t-\nnonsense\n%2\t\tdone\t\t\n";

    #[test]
    fn reads_what_is_shown() {
        let shown = shown(ANSWER);
        assert!(shown.paint);
        assert_eq!(shown.panes.len(), 3);
        assert_eq!(shown.panes["%0"], Pane::default());
        let before = [Some("=bg=red".to_owned()), Some("-".to_owned())];
        assert_eq!(shown.panes["%1"].before, before);
        assert_eq!(shown.panes["%2"].state.as_deref(), Some("done"));
    }

    #[test]
    fn reads_the_styles_of_panes() {
        let answer = "%0\nwindow-style bg=red\n%1\n%2\nremain-on-exit on\nwindow-active-style \"fg=#{?a,b,c} \\\"q\\\"\"\n";
        let found = styles(answer);
        assert_eq!(found["%0"], ["=bg=red", "-"]);
        assert_eq!(found["%1"], ["-", "-"]);
        assert_eq!(found["%2"], ["-", "=fg=#{?a,b,c} \"q\""]);
    }

    #[test]
    fn only_what_differs_is_set() {
        let shown = shown("%1\t\tworking\t\t\n%2\t\t\t\t\n%3\t\tdone\t\t\n");
        let panes = [
            ("%1", Display::Working),
            ("%2", Display::Attention),
            ("%9", Display::Done),
        ];
        let commands = commands(&shown, &wanted(&panes, None), &BTreeMap::new());
        assert_eq!(
            told(&commands),
            [
                "set-option -g @becket !1",
                "set-option -p -t %2 @becket_state attention",
                "set-option -pu -t %3 @becket_state",
            ]
        );
    }

    #[test]
    fn paint_keeps_what_was_there_and_takes_it_back() {
        let bare = shown("%1\t\tworking\t\t\n");
        let on = wanted(&[("%1", Display::Working)], Some(true));
        assert_eq!(unpainted(&bare, &on), ["%1"]);
        let before = styles("%1\nwindow-style bg=red\n");
        assert_eq!(
            told(&commands(&bare, &on, &before))[1..],
            [
                "set-option -s @becket_paint on",
                "set-option -p -t %1 @becket_style =bg=red",
                "set-option -p -t %1 @becket_active_style -",
                "set-option -p -t %1 window-style bg=colour17",
                "set-option -p -t %1 window-active-style bg=colour17",
            ]
        );
        let painted = shown("%1\ton\tworking\t=bg=red\t-\n");
        let undone = [
            "set-option -p -t %1 window-style bg=red",
            "set-option -pu -t %1 @becket_style",
            "set-option -pu -t %1 window-active-style",
            "set-option -pu -t %1 @becket_active_style",
        ];
        let off = wanted(&[("%1", Display::Working)], Some(false));
        let taken_back = told(&commands(&painted, &off, &BTreeMap::new()));
        assert_eq!(taken_back[1], "set-option -su @becket_paint");
        assert_eq!(taken_back[2..], undone);
        let left = told(&commands(&painted, &wanted(&[], None), &BTreeMap::new()));
        assert_eq!(left[1], "set-option -pu -t %1 @becket_state");
        assert_eq!(left[2..], undone);
    }

    #[test]
    fn a_painted_pane_only_changes_its_colour() {
        let painted = shown("%1\ton\tworking\t-\t-\n");
        let same = wanted(&[("%1", Display::Working)], None);
        assert!(unpainted(&painted, &same).is_empty());
        assert_eq!(commands(&painted, &same, &BTreeMap::new()).len(), 1);
        let other = wanted(&[("%1", Display::Error)], None);
        let commands = commands(&painted, &other, &BTreeMap::new());
        assert_eq!(
            told(&commands)[2..],
            [
                "set-option -p -t %1 window-style bg=colour52",
                "set-option -p -t %1 window-active-style bg=colour52",
            ]
        );
    }

    #[test]
    fn a_pane_whose_styles_are_unknown_is_not_painted() {
        let bare = shown("%1\t\tworking\t\t\n");
        let on = wanted(&[("%1", Display::Working)], Some(true));
        assert_eq!(commands(&bare, &on, &BTreeMap::new()).len(), 2);
    }

    #[test]
    fn every_state_has_a_colour_of_its_own() {
        let styles: std::collections::BTreeSet<_> = Display::ALL.map(style).into();
        assert_eq!(styles.len(), Display::ALL.len());
    }
}
