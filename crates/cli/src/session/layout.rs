//! Which columns a table has in so many columns of the terminal, and how wide each is.

/// The columns, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    State,
    Project,
    Session,
    Doing,
    Since,
    Context,
    Cost,
    Model,
    Id,
}

pub const COLUMNS: [Column; 9] = [
    Column::State,
    Column::Project,
    Column::Session,
    Column::Doing,
    Column::Since,
    Column::Context,
    Column::Cost,
    Column::Model,
    Column::Id,
];

/// Between two columns.
pub const GAP: usize = 2;

impl Column {
    pub fn head(self) -> &'static str {
        match self {
            Self::State => "STATE",
            Self::Project => "PROJECT",
            Self::Session => "SESSION",
            Self::Doing => "DOING",
            Self::Since => "FOR",
            Self::Context => "CTX",
            Self::Cost => "COST",
            Self::Model => "MODEL",
            Self::Id => "ID",
        }
    }

    pub fn is_right(self) -> bool {
        matches!(self, Self::Since | Self::Context | Self::Cost)
    }

    /// The widest that it ever is.
    fn most(self) -> usize {
        match self {
            Self::Project => 24,
            Self::Session => 64,
            Self::Doing => 48,
            Self::Model => 16,
            _ => usize::MAX,
        }
    }

    /// How narrow it may become before another column goes, and at the very least.
    fn least(self) -> (usize, usize) {
        match self {
            Self::Project => (8, 6),
            Self::Session => (16, 10),
            // Enough for `Permission for WebFetch`, and for `Permission for Bash`.
            Self::Doing => (23, 19),
            _ => (usize::MAX, usize::MAX),
        }
    }
}

/// How wide each column is; none if it is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    widths: [Option<usize>; COLUMNS.len()],
    /// Whether the state has its word beside the glyph.
    pub has_word: bool,
}

/// What goes when there is too little room, in this order.
enum Step {
    Drop(Column),
    DropWord,
    Tighten,
}

const STEPS: [Step; 9] = [
    Step::Drop(Column::Model),
    Step::Drop(Column::Cost),
    Step::DropWord,
    Step::Drop(Column::Context),
    Step::Tighten,
    Step::Drop(Column::Session),
    Step::Drop(Column::Project),
    Step::Drop(Column::Id),
    Step::Drop(Column::Since),
];

impl Layout {
    /// `natural` is how wide each column would be, 0 for one that has nothing to show; `word` is
    /// the part of the state's width that goes with its word.
    pub fn new(natural: [usize; COLUMNS.len()], word: usize, width: usize) -> Self {
        let mut wanted = natural;
        for (column, wanted) in COLUMNS.iter().zip(&mut wanted) {
            *wanted = (*wanted).min(column.most());
        }
        let mut layout = Self {
            widths: wanted.map(|width| (width > 0).then_some(width)),
            has_word: true,
        };
        let mut is_tight = false;
        let mut steps = STEPS.iter();
        while layout.least(is_tight) > width {
            match steps.next() {
                None => break,
                Some(Step::Drop(column)) => layout.widths[*column as usize] = None,
                Some(Step::Tighten) => is_tight = true,
                Some(Step::DropWord) => {
                    layout.has_word = false;
                    wanted[0] -= word;
                    layout.widths[0] = Some(wanted[0]);
                }
            }
        }
        layout.share(&wanted, is_tight, width);
        layout
    }

    pub fn width(&self, column: Column) -> Option<usize> {
        self.widths[column as usize]
    }

    fn present(&self) -> usize {
        self.widths.iter().flatten().count()
    }

    /// The narrowest that this may be.
    fn least(&self, is_tight: bool) -> usize {
        let columns = COLUMNS.iter().zip(&self.widths);
        let widths =
            columns.filter_map(|(column, width)| Some(narrow(*column, (*width)?, is_tight)));
        widths.sum::<usize>() + GAP * self.present().saturating_sub(1)
    }

    /// Gives what is left to those that want more, turn by turn.
    fn share(&mut self, wanted: &[usize; COLUMNS.len()], is_tight: bool, width: usize) {
        let mut left = width.saturating_sub(self.least(is_tight));
        for (column, width) in COLUMNS.iter().zip(&mut self.widths) {
            *width = width.map(|width| narrow(*column, width, is_tight));
        }
        let hungry = |widths: &[Option<usize>; COLUMNS.len()]| {
            let nth =
                (0..COLUMNS.len()).filter(|nth| widths[*nth].is_some_and(|w| w < wanted[*nth]));
            nth.min_by_key(|nth| widths[*nth])
        };
        while left > 0 {
            let Some(nth) = hungry(&self.widths) else {
                break;
            };
            self.widths[nth] = self.widths[nth].map(|width| width + 1);
            left -= 1;
        }
    }
}

fn narrow(column: Column, width: usize, is_tight: bool) -> usize {
    let (least, tight) = column.least();
    width.min(if is_tight { tight } else { least })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NATURAL: [usize; 9] = [11, 12, 40, 24, 5, 4, 6, 10, 8];

    fn columns(width: usize) -> Vec<&'static str> {
        let layout = Layout::new(NATURAL, 10, width);
        let present = COLUMNS
            .iter()
            .filter(|column| layout.width(**column).is_some());
        present.map(|column| column.head()).collect()
    }

    #[test]
    fn what_matters_least_goes_first() {
        assert_eq!(columns(usize::MAX).len(), 9);
        assert_eq!(columns(120).len(), 9);
        assert!(!columns(100).contains(&"MODEL"));
        assert_eq!(
            columns(80),
            ["STATE", "PROJECT", "SESSION", "DOING", "FOR", "CTX", "ID"]
        );
        assert_eq!(
            columns(60),
            ["STATE", "PROJECT", "SESSION", "DOING", "FOR", "ID"]
        );
        assert!(columns(40).contains(&"DOING"));
        assert_eq!(
            Layout::new(NATURAL, 10, usize::MAX).width(Column::Session),
            Some(40)
        );
    }

    proptest! {
        #[test]
        fn it_fits(natural in proptest::array::uniform9(0..90_usize), width in 40..220_usize) {
            // These are short by nature; the state is a glyph and a word.
            let short = [11, 90, 90, 90, 6, 5, 9, 90, 14];
            let mut natural: [usize; 9] = std::array::from_fn(|nth| natural[nth].min(short[nth]));
            natural[0] = 11;
            let layout = Layout::new(natural, 10, width);
            let used: usize = layout.widths.iter().flatten().sum();
            prop_assert!(used + GAP * (layout.present() - 1) <= width);
            for (nth, width) in layout.widths.iter().enumerate() {
                prop_assert!(width.is_none_or(|width| width <= natural[nth]));
            }
        }
    }
}
