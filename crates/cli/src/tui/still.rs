//! The view at one moment, without a terminal: for a picture of it.

use becket_wire::rpc::EventRow;
use becket_wire::session::SessionRow;
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::draw;
use super::events::EventLine;
use super::look::Look;
use super::model::Model;

#[derive(Debug)]
pub struct Still<'a> {
    pub rows: Vec<SessionRow>,
    /// All events, of which those of the selected session are shown.
    pub events: &'a [EventRow],
    /// The session that is selected.
    pub selected: &'a str,
    pub now: i64,
    pub home: &'a str,
    pub size: (u16, u16),
}

pub fn still(still: Still<'_>) -> Buffer {
    let look = Look {
        colour: true,
        unicode: true,
        home: Some(still.home.to_owned()),
        zone: TimeZone::UTC,
    };
    let mut model = Model::new();
    model.put_all(still.rows);
    model.settle();
    model.select(still.selected);
    model.events.turn_to(Some(still.selected.to_owned()));
    let of_it = |row: &&EventRow| row.session_id.as_deref() == Some(still.selected);
    for row in still.events.iter().filter(of_it) {
        model.events.put(EventLine::new(row));
    }
    let area = Rect::new(0, 0, still.size.0, still.size.1);
    let mut buffer = Buffer::empty(area);
    draw::draw(&model, &look, still.now, area, &mut buffer);
    buffer
}
