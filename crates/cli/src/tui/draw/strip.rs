//! One row of cells, written from left to right. Nothing gets past its end.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::super::look::{Look, Tone};
use super::super::text::{fit, visible, width};

pub(super) struct Strip<'a> {
    buffer: &'a mut Buffer,
    look: &'a Look,
    x: u16,
    y: u16,
    end: u16,
}

impl<'a> Strip<'a> {
    /// The row `y` of an area; one that it does not have takes nothing.
    pub fn new(buffer: &'a mut Buffer, look: &'a Look, area: Rect, y: u16) -> Self {
        let inside = (area.top()..area.bottom()).contains(&y);
        Self {
            buffer,
            look,
            x: area.x,
            y,
            end: if inside { area.right() } else { area.x },
        }
    }

    pub fn room(&self) -> usize {
        usize::from(self.end.saturating_sub(self.x))
    }

    /// Our own text, as it is; cut where the room ends.
    pub fn own(&mut self, text: &str, tone: Tone) -> &mut Self {
        let style = self.look.style(tone);
        self.styled(text, style)
    }

    pub fn styled(&mut self, text: &str, style: Style) -> &mut Self {
        let room = self.room();
        if room > 0 {
            let (x, _) = self.buffer.set_stringn(self.x, self.y, text, room, style);
            self.x = x;
        }
        self
    }

    /// Somebody else's text, in at most so many cells.
    pub fn foreign(&mut self, text: &str, most: usize, tone: Tone) -> &mut Self {
        let text = visible(text, self.look.unicode);
        let text = fit(&text, most.min(self.room()), self.look.unicode);
        self.own(&text, tone)
    }

    /// Somebody else's text in a column of so many cells, and a space.
    pub fn column(&mut self, text: &str, cells: usize, tone: Tone) -> &mut Self {
        if cells == 0 {
            return self;
        }
        let from = self.x;
        self.foreign(text, cells, tone);
        self.skip_to(from.saturating_add(cells as u16 + 1))
    }

    /// Our own text at the right end of a column of so many cells, and a space before it.
    pub fn right(&mut self, text: &str, cells: usize, tone: Tone) -> &mut Self {
        if cells == 0 {
            return self;
        }
        let text = fit(text, cells, self.look.unicode);
        let end = self.x.saturating_add(cells as u16 + 1);
        let begin = end.saturating_sub(width(&text) as u16);
        self.skip_to(begin).own(&text, tone).skip_to(end)
    }

    pub fn skip(&mut self, cells: u16) -> &mut Self {
        self.skip_to(self.x.saturating_add(cells))
    }

    fn skip_to(&mut self, x: u16) -> &mut Self {
        self.x = x.max(self.x);
        self
    }

    /// The same sign up to the end.
    pub fn fill(&mut self, sign: &str, tone: Tone) {
        let text = sign.repeat(self.room());
        self.own(&text, tone);
    }
}
