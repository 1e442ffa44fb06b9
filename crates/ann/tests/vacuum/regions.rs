//! Regions of deleted rows, and repairs that are interrupted.

use super::*;

/// Twenty clusters, each of `size` rows, far from each other.
fn far_clusters(size: usize, dimensions: usize) -> Data {
    let mut random = Random(9);
    let centres: Vec<f32> = (0..20 * dimensions)
        .map(|_| 4.0 * random.normal())
        .collect();
    let elements = (0..20 * size * dimensions)
        .map(|i| centres[i / dimensions % 20 * dimensions + i % dimensions] + random.normal())
        .collect();
    Data {
        dimensions,
        elements,
    }
}

#[test]
fn region_of_deleted_rows_is_repaired_below_the_global_threshold() {
    let data = far_clusters(400, 32);
    let fixture = Fixture::built(Metric::L2, data.clone(), 16);
    // two of the clusters are a tenth of all rows
    let deleted = |i: usize| i % 20 < 2;
    let near = || (0..400).filter(|i| deleted(*i)).map(|i| data.vector(i));
    let before = pages_of_queries(&fixture, near());
    let insert_near = |fixture: &Fixture, first: usize| {
        let reads = fixture.store.reads();
        for (i, vector) in near().enumerate() {
            let moved: Vec<f32> = vector.iter().map(|x| x + 0.01).collect();
            insert(fixture, &moved, version(first + i, 1), 0);
        }
        fixture.store.reads() - reads
    };
    let copy = Fixture::built(Metric::L2, data.clone(), 16);
    let insert_before = insert_near(&copy, 100_000);

    let is_dead = |row: Tid| row.block < 8000 && deleted(row.block as usize);
    hnsw::remove(&fixture.index, &fixture.store, &fixture.store, &mut {
        is_dead
    })
    .unwrap();
    let watched = Watched::new(&fixture.store);
    let freed = hnsw::repair(&fixture.index, &watched, &watched, MANY).unwrap();
    assert!(freed >= 700, "{freed} of 800 tombstones freed");
    let info = hnsw::info(&fixture.index, &fixture.store).unwrap();
    assert_eq!(info.tombstones, 800 - freed);
    assert_eq!(problems(&fixture), [""; 0]);

    let after = pages_of_queries(&fixture, near());
    assert!(
        after <= 2 * before,
        "queries near the deleted rows: {before} pages before, {after} after"
    );
    let narrow = fixture.scan(data.vector(0), 40, false, 0);
    assert!(
        narrow.len() >= 20,
        "{} of 40 candidates are alive",
        narrow.len()
    );
    let insert_after = insert_near(&fixture, 100_000);
    assert!(
        insert_after <= 2 * insert_before,
        "inserts near the deleted rows: {insert_before} pages before, {insert_after} after"
    );
}

#[test]
fn tombstones_among_live_nodes_stay_until_they_are_many() {
    let data = Data::clustered(4000, 32, 6);
    let fixture = Fixture::built(Metric::L2, data, 16);
    let is_dead = |row: Tid| row.block % 10 == 3;
    hnsw::remove(&fixture.index, &fixture.store, &fixture.store, &mut {
        is_dead
    })
    .unwrap();
    let store = Watched::new(&fixture.store);
    let freed = hnsw::repair(&fixture.index, &store, &store, MANY).unwrap();
    assert!(freed <= 40, "{freed} of 400 tombstones freed");
    hnsw::remove(&fixture.index, &fixture.store, &fixture.store, &mut |row| {
        row.block % 10 < 2
    })
    .unwrap();
    hnsw::repair(&fixture.index, &fixture.store, &fixture.store, MANY).unwrap();
    assert_eq!(
        hnsw::info(&fixture.index, &fixture.store)
            .unwrap()
            .tombstones,
        0
    );
    assert_eq!(problems(&fixture), [""; 0]);
}

#[test]
fn rows_that_survive_in_a_deleted_region_are_found() {
    let data = far_clusters(400, 32);
    let mut fixture = Fixture::built(Metric::L2, data.clone(), 16);
    let survives = |i: usize| i % 20 >= 2 || (i / 20).is_multiple_of(40);
    fixture.remove(|i| !survives(i));
    hnsw::repair(&fixture.index, &fixture.store, &fixture.store, MANY).unwrap();
    fixture.assert_sound();
    let lost: Vec<usize> = (0..data.len())
        .filter(|i| i % 20 < 2 && survives(*i))
        .filter(|i| {
            !fixture
                .scan(data.vector(*i), 40, false, 0)
                .iter()
                .any(|(_, row)| *row == tid(*i))
        })
        .collect();
    assert_eq!(lost, [0; 0]);
}

#[test]
fn repair_with_nothing_to_do_changes_nothing() {
    let mut fixture = Fixture::built(Metric::L2, Data::clustered(2000, 16, 7), 8);
    fixture.remove(|i| i.is_multiple_of(3));
    fixture.repair();
    let store = Watched::new(&fixture.store);
    hnsw::repair(&fixture.index, &store, &store, 0.0).unwrap();
    assert_eq!(store.writes.get(), 0);
}

#[test]
fn vacuum_that_was_stopped_is_noted_on_the_first_page() {
    let fixture = Fixture::built(Metric::L2, Data::clustered(500, 16, 8), 8);
    let store = Watched::new(&fixture.store);
    store.cancelled_at.set(5);
    let end = unless_stopped(|| hnsw::remove(&fixture.index, &store, &store, &mut |_| true));
    assert!(end.is_none());
    let counts = hnsw::counts(&fixture.store).unwrap();
    assert!(
        counts.repair_due
            && hnsw::info(&fixture.index, &fixture.store)
                .unwrap()
                .tombstones
                > 0
    );
    // the next one may have no dead row, and only clean up
    hnsw::repair(&fixture.index, &fixture.store, &fixture.store, 0.0).unwrap();
    let info = hnsw::info(&fixture.index, &fixture.store).unwrap();
    let counts = hnsw::counts(&fixture.store).unwrap();
    assert_eq!(
        (info.tombstones, counts.tombstones, counts.nodes),
        (0, 0, info.nodes)
    );
    assert!(!counts.repair_due);
}

#[test]
fn insert_whose_nearest_neighbour_dies_meanwhile_is_found() {
    let data = Data::clustered(400, 8, 10);
    let fixture = Fixture::built(Metric::L2, data.clone(), 4);
    let vector: Vec<f32> = data.vector(5).iter().map(|x| x + 0.001).collect();
    let store = Watched::new(&fixture.store);
    let (index, pages) = (&fixture.index, &fixture.store);
    // after the node was written, before the first link to it
    store.after_writes(1, move || {
        hnsw::remove(index, pages, pages, &mut |row| row == tid(5)).unwrap();
    });
    Inserter::default()
        .insert(index, &store, &vector, version(9000, 1), 0)
        .unwrap();
    assert!(
        fixture
            .scan(&vector, 10, false, 0)
            .iter()
            .any(|(_, row)| row.block == 9000)
    );
}
