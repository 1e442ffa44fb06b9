//! Rows in the order of their distance, after an index has returned some of them.
#![allow(clippy::unwrap_used)] // all is test

use rag_ann::ranked::RankedRows;
use rag_pages::Tid;

use crate::support::Random;

fn row(number: usize) -> Tid {
    Tid {
        block: (number / 100) as u32,
        offset: (number % 100 + 1) as u16,
    }
}

/// Takes all rows, and adds them again as often as there was no room.
fn take_all(ranked: &mut RankedRows, rows: &[(Tid, f64)]) -> (Vec<Tid>, usize) {
    let (mut taken, mut passes) = (vec![], 0);
    loop {
        passes += 1;
        for (row, distance) in rows {
            ranked.add(*row, *distance).unwrap();
        }
        while let Some(row) = ranked.take() {
            taken.push(row);
        }
        if !ranked.needs_rows() {
            return (taken, passes);
        }
    }
}

#[test]
fn rows_come_by_distance_and_place() {
    let mut random = Random(7);
    let mut ranked = RankedRows::default();
    for count in [0, 1, 255, 256, 257, 1000, 4096, 4097, 20_000] {
        // few distances, so that many are equal
        let rows: Vec<_> = (0..count)
            .map(|number| (row(number), f64::from(random.below(200)) / 8.0 - 5.0))
            .collect();
        let mut expected = rows.clone();
        expected.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        ranked.reset(0);
        ranked.begin(None);
        let (taken, passes) = take_all(&mut ranked, &rows);
        assert!(
            taken
                .into_iter()
                .eq(expected.into_iter().map(|(row, _)| row))
        );
        assert_eq!(passes > 1, count > 4096, "{count} rows in {passes} passes");
    }
}

#[test]
fn rows_of_the_index_do_not_come_again_and_late_ones_come_last() {
    let mut random = Random(8);
    for count in [10, 1000, 10_000] {
        let rows: Vec<_> = (0..count)
            .map(|number| (row(number), f64::from(random.below(1_000_000))))
            .collect();
        let mut expected = rows.clone();
        expected.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        let mut ranked = RankedRows::default();
        ranked.reset(0);
        // the index misses each seventh row
        let found = expected.iter().enumerate().take(count / 3);
        let (missed, returned): (Vec<_>, Vec<_>) = found.partition(|(number, _)| number % 7 == 3);
        for (_, (row, _)) in &returned {
            ranked.add_returned(*row).unwrap();
        }
        assert_eq!(ranked.returned_count(), returned.len());
        let last = returned.last().map(|(_, (_, distance))| *distance);
        ranked.begin(last);
        let (late, rest): (Vec<_>, Vec<_>) = missed
            .into_iter()
            .map(|(_, row)| *row)
            .chain(expected[count / 3..].iter().copied())
            .partition(|(_, distance)| last.is_some_and(|last| *distance < last));
        let expected = rest.into_iter().chain(late).map(|(row, _)| row);
        assert!(take_all(&mut ranked, &rows).0.into_iter().eq(expected));
    }
}

#[test]
fn distances_that_are_not_numbers_are_left_out_unless_all_are() {
    let rows = [(row(1), f64::NAN), (row(2), 1.0), (row(3), f64::INFINITY)];
    let mut ranked = RankedRows::default();
    ranked.reset(0);
    ranked.begin(None);
    assert_eq!(take_all(&mut ranked, &rows).0, [row(2), row(3)]);
    ranked.reset(0);
    ranked.begin(None);
    assert_eq!(take_all(&mut ranked, &rows[..1]).0, [row(1)]);
    // the index has returned a row with a distance
    ranked.reset(0);
    ranked.begin(Some(0.5));
    assert_eq!(take_all(&mut ranked, &rows[..1]).0, []);
}
