//! Rules of the search in turn: what one finds hard, another often finds at once.

use super::limits::{Meter, Stop};
use super::search::{Outcome, Pick, Prefer, Rule, Search};

/// Rules in the order in which they run. On hard instances each of them solves some that most others do not.
const RULES: [(Pick, Prefer); 15] = [
    (Pick::FloorThenSlack, Prefer::Length),
    (Pick::CasesThenFloor, Prefer::WallThenArea),
    (Pick::Slack, Prefer::Length),
    (Pick::CasesThenFloor, Prefer::Area),
    (Pick::Valley, Prefer::Size),
    (Pick::Cases, Prefer::WallThenArea),
    (Pick::Slack, Prefer::Area),
    (Pick::Floor, Prefer::Size),
    (Pick::Valley, Prefer::Length),
    (Pick::Slack, Prefer::WallThenArea),
    (Pick::Floor, Prefer::Length),
    (Pick::Cases, Prefer::Length),
    (Pick::FloorThenSlack, Prefer::Guide),
    (Pick::CasesThenFloor, Prefer::Guide),
    (Pick::Floor, Prefer::Guide),
];

/// How much chance enters, round by round. The first round has none.
const NOISE: [f64; 6] = [0.0, 0.2, 1.0, 0.05, 0.4, 0.1];

/// Nodes of each run in the first rounds, besides two per item. It doubles every few rounds: on hard instances many short
/// runs find more than few long ones.
const FIRST_SHARE: u64 = 500;
const ROUNDS_PER_SHARE: u32 = 4;

/// Rules that find a good plan if they find any, at the first attempt.
pub(super) fn dives() -> impl Iterator<Item = Rule> {
    let floors = [
        (Pick::Floor, Prefer::WallThenArea),
        (Pick::Floor, Prefer::Area),
        (Pick::Floor, Prefer::Length),
        (Pick::FloorThenSlack, Prefer::Size),
    ];
    floors.into_iter().map(|(pick, prefer)| Rule {
        pick,
        prefer,
        noise: 0.0,
        seed: 0,
    })
}

/// Runs all rules once at one capacity. Rounds count from 0; later ones look deeper, and elsewhere.
pub(super) fn sweep(
    search: &mut Search<'_>,
    capacity: u64,
    round: u32,
    meter: &mut Meter<'_>,
) -> Result<Outcome, Stop> {
    let share = (FIRST_SHARE + 2 * search.item_count()) << (round / ROUNDS_PER_SHARE).min(40);
    for (number, &(pick, prefer)) in RULES.iter().enumerate() {
        let noise = NOISE[round as usize % NOISE.len()];
        let seed = (u64::from(round) << 32) + number as u64;
        let rule = Rule {
            pick,
            prefer,
            noise,
            seed,
        };
        match search.run(capacity, &rule, share, meter)? {
            Outcome::Open => {}
            settled => return Ok(settled),
        }
    }
    Ok(Outcome::Open)
}
