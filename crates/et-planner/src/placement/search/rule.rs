//! Where to go on, and what to try first.

use super::skyline::{Skyline, mix};

/// Which column's cases come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Pick {
    /// Fewest cases, then least slack.
    Cases,
    /// Fewest cases, then lowest floor.
    CasesThenFloor,
    /// Lowest floor, then fewest cases.
    Floor,
    /// Lowest floor, then least slack.
    FloorThenSlack,
    /// Least slack, then fewest cases.
    Slack,
    /// Narrowest valley, then fewest cases.
    Valley,
}

/// Which item comes first among those that can start there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Prefer {
    /// Much space for long.
    Area,
    /// Much space.
    Size,
    /// For long.
    Length,
    /// Much space for long, but those that reach a wall of the valley before all others.
    WallThenArea,
    /// As low as in the best plan so far.
    Guide,
}

/// How a run of the search decides. Every rule visits all cases in the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) struct Rule {
    pub(in super::super) pick: Pick,
    pub(in super::super) prefer: Prefer,
    /// How much chance may change the order: 0 not at all, 1 up to twofold.
    pub(in super::super) noise: f64,
    pub(in super::super) seed: u64,
}

/// A column and the valley that it is in.
pub(super) struct Spot {
    pub(super) column: usize,
    valley: Valley,
}

#[derive(Clone, Copy)]
struct Valley {
    start: usize,
    end: usize,
    /// Floors of the neighbouring columns that an item could be level with.
    walls: [Option<u64>; 2],
}

impl Rule {
    /// The column in `range` whose cases come next. Something must be left to place there.
    pub(super) fn pick(&self, skyline: &Skyline<'_>, range: (usize, usize)) -> Spot {
        let mut best: Option<((u64, u64), Spot)> = None;
        let mut start = range.0;
        while start < range.1 {
            if skyline.load(start) == 0 {
                start += 1;
                continue;
            }
            let (valley, is_valley) = Valley::at(skyline, range, start);
            for column in valley.start..if is_valley { valley.end } else { valley.start } {
                let key = self.key(skyline, column, &valley);
                if best.as_ref().is_none_or(|(least, _)| key < *least) {
                    best = Some((key, Spot { column, valley }));
                }
            }
            start = valley.end;
        }
        let (_, spot) = best.expect("the lowest column with anything left is in a valley");
        spot
    }

    fn key(&self, skyline: &Skyline<'_>, column: usize, valley: &Valley) -> (u64, u64) {
        let (floor, slack) = (skyline.floor(column), skyline.slack(column));
        let cases = u64::from(skyline.tally(column).ready) + u64::from(slack > 0);
        match self.pick {
            Pick::Cases => (cases, slack),
            Pick::CasesThenFloor => (cases, floor),
            Pick::Floor => (floor, cases),
            Pick::FloorThenSlack => (floor, slack),
            Pick::Slack => (slack, cases),
            Pick::Valley => ((valley.end - valley.start) as u64, cases),
        }
    }

    /// How promising it is to start `item` at `spot`; more is better.
    pub(super) fn score(
        &self,
        skyline: &Skyline<'_>,
        spot: &Spot,
        item: u32,
        draw: &mut u64,
    ) -> f64 {
        let columns = skyline.columns();
        let (size, length) = {
            let item = &columns.items[item as usize];
            (item.size as f64, item.lifetime.len() as f64)
        };
        let worth = match self.prefer {
            Prefer::Size => size,
            Prefer::Length => length,
            Prefer::Area | Prefer::WallThenArea => size * length,
            Prefer::Guide => return self.like_the_guide(skyline, spot, item, draw),
        };
        let span = columns.span(item as usize);
        let end = skyline.floor(spot.column) + columns.items[item as usize].size;
        let touches = [span.start == spot.valley.start, span.end == spot.valley.end];
        let level = (0..2).filter(|&side| touches[side] && spot.valley.walls[side] == Some(end));
        let mut class = 4 * level.count();
        if self.prefer == Prefer::WallThenArea {
            class += 2 * touches.iter().filter(|touches| **touches).count();
        }
        // Below 1, so that it only decides within a class.
        let score = class as f64 + worth / (worth + 1e9);
        score * self.chance(draw)
    }

    /// More for what starts here in the best plan, too, and for what starts close by.
    fn like_the_guide(&self, skyline: &Skyline<'_>, spot: &Spot, item: u32, draw: &mut u64) -> f64 {
        let away = skyline.guided(item).abs_diff(skyline.floor(spot.column)) as f64;
        let size = skyline.columns().items[item as usize].size as f64;
        size / (size + away) * self.chance(draw)
    }

    fn chance(&self, draw: &mut u64) -> f64 {
        if self.noise == 0.0 {
            return 1.0;
        }
        *draw = draw.wrapping_add(0x9e37_79b9_7f4a_7c15);
        1.0 + self.noise * (mix(*draw) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Valley {
    /// The run of equal floors from `start` on, and whether both its sides are higher.
    fn at(skyline: &Skyline<'_>, range: (usize, usize), start: usize) -> (Self, bool) {
        let floor = skyline.floor(start);
        let open = |column: usize| skyline.load(column) > 0;
        let mut end = start + 1;
        while end < range.1 && open(end) && skyline.floor(end) == floor && skyline.is_crossed(end) {
            end += 1;
        }
        // A side that nothing unplaced spans is as good as a wall.
        let left = (start > range.0 && open(start - 1)).then(|| start - 1);
        let right = (end < range.1 && open(end)).then_some(end);
        let walls = [left, right].map(|column| column.map(|column| skyline.floor(column)));
        let falls = |wall: Option<u64>, boundary: usize| {
            wall.is_some_and(|wall| wall < floor) && skyline.is_crossed(boundary)
        };
        let is_valley = !falls(walls[0], start) && !falls(walls[1], end);
        (Self { start, end, walls }, is_valley)
    }
}
