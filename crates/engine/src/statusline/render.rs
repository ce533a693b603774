//! A line from a template, as wide as there is room.

use unicode_width::UnicodeWidthStr;

use super::Line;
use super::part::{Part, cut};
use super::template::{Slot, Template};
use crate::config::StatusLine;

/// One part that has something to show.
struct Shown {
    /// Its place in the template.
    at: usize,
    part: Part,
    text: String,
}

/// The line that is printed, without its end. Where there is too little room, the least important
/// parts go first; what is left is cut.
pub fn render(line: &Line, how: &StatusLine, width: usize, colour: bool) -> String {
    let template = &how.template;
    let show = |(at, slot): (usize, &Slot)| Shown {
        at,
        part: slot.part,
        text: slot.part.text(line, how.bar_width),
    };
    let mut shown: Vec<Shown> = template.slots.iter().enumerate().map(show).collect();
    shown.retain(|part| !part.text.is_empty());
    if shown.is_empty() {
        return String::new();
    }
    while shown.len() > 1 && wide(&shown, template) > width {
        let least = shown.iter().map(|shown| shown.part).min();
        // A part that stands there twice goes once at a time, the last one first.
        let at = shown.iter().rposition(|shown| Some(shown.part) == least);
        at.map(|at| shown.remove(at));
    }
    if wide(&shown, template) > width {
        return alone(&shown, line, width, colour);
    }
    let mut printed = String::new();
    for (index, Shown { part, text, .. }) in shown.iter().enumerate() {
        before(&shown, index, template).for_each(|text| printed.push_str(text));
        printed.push_str(&styled(*part, text, line, colour));
    }
    printed.push_str(&template.end);
    printed
}

/// What stands before a part: a separator, unless it is the first one, and its label. Of the
/// separators of parts that are not shown the widest counts, since they parted more.
fn before<'t>(
    shown: &[Shown],
    index: usize,
    template: &'t Template,
) -> impl Iterator<Item = &'t str> {
    let at = shown[index].at;
    let separator = index.checked_sub(1).map(|previous| {
        let slots = &template.slots[shown[previous].at + 1..=at];
        let separators = slots.iter().map(|slot| slot.separator.as_str());
        separators
            .max_by_key(|text| text.width())
            .unwrap_or_default()
    });
    let label = template.slots[at].label.as_str();
    separator.into_iter().chain([label])
}

fn wide(shown: &[Shown], template: &Template) -> usize {
    let part = |(index, shown_here): (usize, &Shown)| {
        let before: usize = before(shown, index, template)
            .map(UnicodeWidthStr::width)
            .sum();
        before + shown_here.text.width()
    };
    shown.iter().enumerate().map(part).sum::<usize>() + template.end.width()
}

/// The last part that is left, in too little room: it alone, and cut.
fn alone(shown: &[Shown], line: &Line, width: usize, colour: bool) -> String {
    let last = shown.first();
    last.map_or(String::new(), |Shown { part, text, .. }| {
        styled(*part, &cut(text, width), line, colour)
    })
}

fn styled(part: Part, text: &str, line: &Line, colour: bool) -> String {
    let style = part.style(line);
    if colour {
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}
