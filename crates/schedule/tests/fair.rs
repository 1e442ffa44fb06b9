//! Distribution of the slots for runs.

use rag_schedule::fair::{Party, Waiter, gives_way, granted};

const fn party(database: u32, owner: u32) -> Party {
    Party { database, owner }
}

fn waiter(party: Party, arrival: u64) -> Waiter {
    Waiter {
        party,
        served: 0,
        repeats: false,
        arrival,
    }
}

#[test]
fn waiters_with_equal_loads_are_served_in_order_of_arrival() {
    let waiters = [waiter(party(1, 10), 5), waiter(party(2, 20), 4)];
    assert_eq!(granted(&[], &waiters, 1), [1]);
    assert_eq!(granted(&[], &waiters, 9), [1, 0]);
    assert!(granted(&[], &waiters, 0).is_empty());
}

#[test]
fn a_party_with_runs_is_served_after_one_without() {
    let waiters = [waiter(party(1, 10), 1), waiter(party(2, 20), 2)];
    assert_eq!(granted(&[party(1, 10)], &waiters, 1), [1]);
}

#[test]
fn an_owner_has_one_share_in_all_databases() {
    let waiters = [waiter(party(2, 10), 1), waiter(party(3, 20), 2)];
    assert_eq!(granted(&[party(1, 10)], &waiters, 1), [1]);
}

#[test]
fn owners_of_one_database_share_its_slots() {
    let waiters = [waiter(party(1, 10), 1), waiter(party(1, 20), 2)];
    assert_eq!(granted(&[party(1, 10)], &waiters, 1), [1]);
}

#[test]
fn two_slots_of_one_grant_go_to_two_parties() {
    let waiters = [
        waiter(party(1, 10), 1),
        waiter(party(1, 10), 2),
        waiter(party(2, 20), 3),
    ];
    assert_eq!(granted(&[], &waiters, 2), [0, 2]);
}

#[test]
fn databases_and_kinds_of_waiters_take_turns() {
    let served_last = Waiter {
        served: 7,
        ..waiter(party(1, 10), 1)
    };
    let served_before = Waiter {
        served: 6,
        ..waiter(party(2, 20), 2)
    };
    assert_eq!(granted(&[], &[served_last, served_before], 1), [1]);
    let session = Waiter {
        repeats: true,
        ..waiter(party(1, 10), 1)
    };
    let queue = waiter(party(1, 10), 2);
    assert_eq!(granted(&[], &[session, queue], 1), [1]);
}

#[test]
fn a_party_with_two_runs_yields_to_one_without() {
    let runs = [party(1, 10), party(1, 10)];
    assert_eq!(
        gives_way(&runs, &[waiter(party(2, 20), 1)], |_| true),
        Some(1)
    );
    assert_eq!(
        gives_way(&runs, &[waiter(party(2, 10), 1)], |_| true),
        Some(1)
    );
    assert_eq!(
        gives_way(&runs, &[waiter(party(1, 20), 1)], |_| true),
        Some(1)
    );
    assert_eq!(
        gives_way(&runs, &[waiter(party(2, 20), 1)], |_| false),
        None
    );
    assert_eq!(gives_way(&runs, &[waiter(party(1, 10), 1)], |_| true), None);
}

#[test]
fn with_two_slots_a_third_party_waits_for_its_turn() {
    let runs = [party(1, 10), party(2, 20)];
    assert_eq!(gives_way(&runs, &[waiter(party(3, 30), 1)], |_| true), None);
}

#[test]
fn a_run_yields_only_to_the_next_waiter() {
    let runs = [party(1, 10), party(1, 10)];
    let waiters = [waiter(party(2, 20), 1), waiter(party(3, 30), 2)];
    assert_eq!(gives_way(&runs, &waiters, |position| position == 1), None);
}

/// Runs that give way one after another come to an end, whatever waits.
#[test]
fn yielding_ends() {
    let mut state = 1_u32;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    for _ in 0..2_000 {
        let mut runs: Vec<Party> = (0..1 + random(6))
            .map(|_| party(random(4), random(4)))
            .collect();
        let mut waiters: Vec<Waiter> = (0..u64::from(1 + random(6)))
            .map(|n| waiter(party(random(4), random(4)), n))
            .collect();
        let mut arrival = 100;
        let mut steps = 0;
        while let Some(victim) = gives_way(&runs, &waiters, |_| true) {
            let loser = runs.remove(victim);
            let winner = granted(&runs, &waiters, 1)[0];
            runs.push(waiters.remove(winner).party);
            arrival += 1;
            waiters.push(waiter(loser, arrival));
            steps += 1;
            assert!(steps < 50, "{runs:?} {waiters:?}");
        }
    }
}
