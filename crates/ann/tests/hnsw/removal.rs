//! Rows that are removed, and what is found afterwards.

use super::*;

#[test]
fn removed_rows_are_gone_and_the_others_are_found() {
    for metric in METRICS {
        let mut fixture = Fixture::built(metric, Data::clustered(2000, 64, 5), 16);
        let before = hnsw::info(&fixture.index, &fixture.store).unwrap();
        fixture.remove(|i| i % 2 == 0);
        fixture.assert_sound();
        assert!(fixture.recall(50, 10) >= 0.9, "{metric:?}: with tombstones");
        let freed = fixture.repair();
        assert_eq!(freed, 1000);
        fixture.assert_sound();
        let info = hnsw::info(&fixture.index, &fixture.store).unwrap();
        assert_eq!(
            (
                info.vectors,
                info.tombstones,
                info.free_slots - before.free_slots
            ),
            (1000, 0, 1000)
        );
        let recall = fixture.recall(50, 10);
        assert!(recall >= 0.95, "{metric:?}: repaired, recall {recall}");
        // the freed slots are used again
        let pages = fixture.store.block_count();
        fixture.insert_again(|i| i % 2 == 0);
        fixture.assert_sound();
        assert!(
            fixture.store.block_count() <= pages + 4,
            "{} pages grew to {}",
            pages,
            fixture.store.block_count()
        );
        let recall = fixture.recall(50, 10);
        assert!(
            recall >= 0.95,
            "{metric:?}: inserted again, recall {recall}"
        );
    }
}

#[test]
fn rows_whose_neighbours_have_died_are_found() {
    // Rows that came into an index full of rows that nobody sees any more, as after a REINDEX under
    // an old snapshot: most of the links to them are those of the dead.
    let mut lost = vec![];
    for seed in 0..4 {
        let mut random = support::Random(seed);
        let mut uniform = |width: f32| width * (random.uniform() as f32 - 0.5);
        let centres: Vec<f32> = (0..40 * 64).map(|_| uniform(2.0)).collect();
        let elements = (0..14_000 * 64)
            .map(|i| centres[i / 64 % 40 * 64 + i % 64] + uniform(1.0))
            .collect();
        let data = Data {
            dimensions: 64,
            elements,
        };
        let mut fixture = Fixture::built(Metric::Cosine, data.slice(0..12_000), 16);
        fixture.insert_all(&data.slice(12_000..14_000));
        fixture.remove(|i| i < 12_000 && i / 40 % 20 > 0);
        fixture.repair();
        fixture.assert_sound();
        lost.push(1.0 - fixture.recall(500, 10));
    }
    assert!(
        lost.iter().sum::<f64>() < 0.004 * lost.len() as f64,
        "{lost:?}"
    );
}

#[test]
fn rows_inserted_where_all_others_are_dead_are_found() {
    // a thousand rows around one point far from all others, which die without a repair, and their
    // successors
    let mut data = Data::clustered(6000, 16, 16);
    let mut random = support::Random(5);
    for i in (0..1000).chain(5900..6000) {
        let around: Vec<f32> = (0..16).map(|_| 20.0 + random.normal()).collect();
        data.set(i, &around);
    }
    let mut fixture = Fixture::built(Metric::L2, data.slice(0..5900), 8);
    fixture.remove(|i| i < 1000);
    fixture.insert_all(&data.slice(5900..6000));
    fixture.assert_sound();
    let rows = |fixture: &Fixture| {
        let found = fixture.scan(&[20.0; 16], 80, true, 100_000);
        found[..100]
            .iter()
            .filter(|(_, row)| row.block >= 5900)
            .count()
    };
    assert_eq!(rows(&fixture), 100);
    fixture.repair();
    fixture.assert_sound();
    assert_eq!(rows(&fixture), 100);
    let found = fixture.scan(&[20.0; 16], 200, false, 0);
    assert!(found.iter().filter(|(_, row)| row.block >= 5900).count() >= 95);
}

#[test]
fn the_first_after_all_others_died_is_found() {
    let mut fixture = Fixture::built(Metric::Cosine, Data::clustered(400, 8, 17), 4);
    fixture.remove(|_| true);
    fixture.insert_again(|i| i < 50);
    fixture.assert_sound();
    // by links alone; one may have lost its only one
    assert!(fixture.scan(&[1.0; 8], 60, false, 0).len() >= 49);
    fixture.repair();
    fixture.assert_sound();
    assert_eq!(fixture.scan(&[1.0; 8], 60, false, 0).len(), 50);
}

#[test]
fn everything_can_be_removed_and_inserted_again() {
    let mut fixture = Fixture::built(Metric::Cosine, Data::clustered(500, 8, 6), 4);
    fixture.remove(|_| true);
    assert_eq!(fixture.scan(&[1.0; 8], 10, true, 1000), []);
    assert_eq!(fixture.repair(), 500);
    fixture.assert_sound();
    assert_eq!(fixture.scan(&[1.0; 8], 10, true, 1000), []);
    fixture.insert_again(|_| true);
    fixture.assert_sound();
    assert!(fixture.recall(50, 10) >= 0.9);
}

#[test]
fn duplicates_can_be_removed_and_inserted_again() {
    let mut data = Data::clustered(300, 4, 7);
    for i in 0..200 {
        data.set(i, &[1.0, 2.0, 3.0, 4.0]);
    }
    let mut fixture = Fixture::built(Metric::L2, data, 16);
    for round in 0..4 {
        fixture.remove(|i| i % 4 == round || i >= 290);
        fixture.assert_sound();
        fixture.insert_again(|i| i % 4 == round || i >= 290);
        fixture.assert_sound();
        assert_eq!(fixture.scan(&[1.0; 4], 10, true, 1000).len(), 300);
    }
    fixture.remove(|i| i < 200);
    assert_eq!(fixture.scan(&[1.0; 4], 10, true, 1000).len(), 100);
    fixture.repair();
    fixture.assert_sound();
    assert_eq!(
        hnsw::info(&fixture.index, &fixture.store).unwrap().vectors,
        100
    );
}
