//! Decides which waiter gets the next of a few slots.
//!
//! A party is an owner in a database. Its load is the number of runs of its database plus the
//! number of runs of its owner. The next slot goes to the waiter with the smallest load. Waiters
//! with equal loads take turns: first by database, then by the two kinds of waiters of a database
//! (sessions and its queue), then in the order of arrival.
//!
//! A run yields its slot to a waiter if that reduces the sum of the squares of the runs of all
//! databases and all owners. The sum decreases each time, so two parties cannot take slots from
//! each other in turns.

/// The database and owner of a run, as OIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Party {
    pub database: u32,
    pub owner: u32,
}

/// A session or queue that waits for a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter {
    pub party: Party,
    /// When its database last got a slot, as a counter.
    pub served: u64,
    /// True if the last slot of its database went to a waiter of the same kind.
    pub repeats: bool,
    /// When it began to wait, as a counter.
    pub arrival: u64,
}

/// Returns the number of runs of the party's database plus that of its owner.
fn load(runs: &[Party], party: Party) -> usize {
    let of_database = runs
        .iter()
        .filter(|run| run.database == party.database)
        .count();
    let of_owner = runs.iter().filter(|run| run.owner == party.owner).count();
    of_database + of_owner
}

/// Returns the positions of the waiters that get the `free` slots, in that order. Each waiter gets
/// at most one.
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
        let Some(best) = (0..left.len()).min_by_key(|i| key(&left[*i])) else {
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

/// Returns the position of the run that must yield its slot to an impatient waiter, if no slot is
/// free: the last of `runs` whose slot the waiter would get and whose party has more than its
/// share.
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
