//! Who gets the next of a few places that many parties want.
//!
//! A party is an owner in a database. Its load is the number of runs of its database and the number
//! of runs of its owner, added. The next place goes to the waiter with the smallest load. Waiters
//! with equal loads take turns: first by database, then the two kinds of waiters of a database
//! (sessions and its queue), then in the order of arrival.
//!
//! A run gives way to a waiter where that makes the sum of the squares of all databases' and all
//! owners' runs smaller. The sum gets smaller with each run that gives way, so that no two parties
//! push each other out in turns.

/// Whose a run is. Both numbers are OIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Party {
    pub database: u32,
    pub owner: u32,
}

/// Somebody who waits for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter {
    pub party: Party,
    /// When its database last got a place, as a counter.
    pub served: u64,
    /// Whether the last place of its database went to a waiter of the same kind.
    pub repeats: bool,
    /// When it came, as a counter.
    pub arrival: u64,
}

/// Runs of the party's database and runs of its owner, added.
fn load(runs: &[Party], party: Party) -> usize {
    let of_database = runs
        .iter()
        .filter(|run| run.database == party.database)
        .count();
    let of_owner = runs.iter().filter(|run| run.owner == party.owner).count();
    of_database + of_owner
}

/// The positions of the waiters who get the `free` places, in the order in which they get them.
/// Each waiter gets one at most.
pub fn granted(runs: &[Party], waiters: &[Waiter], free: usize) -> Vec<usize> {
    let (mut runs, mut left) = (
        runs.to_vec(),
        waiters.iter().copied().enumerate().collect::<Vec<_>>(),
    );
    let mut granted = vec![];
    while granted.len() < free {
        let key = |(_, waiter): &(usize, Waiter)| {
            (
                load(&runs, waiter.party),
                waiter.served,
                waiter.repeats,
                waiter.arrival,
            )
        };
        let Some(best) = (0..left.len()).min_by_key(|place| key(&left[*place])) else {
            break;
        };
        let (position, waiter) = left.remove(best);
        runs.push(waiter.party);
        left.iter_mut()
            .filter(|(_, other)| other.party.database == waiter.party.database)
            .for_each(|(_, other)| other.served = u64::MAX);
        granted.push(position);
    }
    granted
}

/// The position of the run that gives way to an impatient waiter: the last one, in the order of
/// `runs`, whose place the waiter would get and whose party has more than its share. No place is
/// free.
pub fn gives_way(
    runs: &[Party],
    waiters: &[Waiter],
    is_impatient: impl Fn(usize) -> bool,
) -> Option<usize> {
    (0..runs.len()).rev().find(|victim| {
        let mut others = runs.to_vec();
        let party = others.remove(*victim);
        granted(&others, waiters, 1).first().is_some_and(|next| {
            is_impatient(*next) && load(runs, party) > load(&others, waiters[*next].party) + 2
        })
    })
}
