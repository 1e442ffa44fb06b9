//! A check beside a writer.

use rag_pages::PAGE_BYTES;

use super::*;

#[test]
fn nothing_that_is_being_written_is_reported() {
    let data = Data::clustered(600, 8, 14);
    let fixture = Fixture::built(Metric::L2, data.clone(), 4);
    let (index, store) = (&fixture.index, &fixture.store);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut inserter = Inserter::default();
            let mut random = Random(15);
            for round in 2..40_u16 {
                for i in 0..data.len() {
                    let level = hnsw::random_level(4, random.uniform());
                    // every other row keeps its vector, and gets a chain
                    let shift = if i % 2 == 0 {
                        0.01 * f32::from(round)
                    } else {
                        0.0
                    };
                    let vector: Vec<f32> = data.vector(i).iter().map(|x| x + shift).collect();
                    inserter
                        .insert(index, store, &vector, version(i, round), level)
                        .unwrap();
                }
                let mut is_dead = |row: Tid| row.offset < round;
                hnsw::remove(index, store, store, &mut is_dead).unwrap();
                hnsw::repair(index, store, store, MANY).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        let mut checks = 0;
        while !done.load(Ordering::Acquire) {
            let mut problems = vec![];
            let mut report = |problem: hnsw::IndexProblem| problems.push(problem.problem);
            hnsw::check(index, store, &mut |_| (), &mut report).unwrap();
            assert_eq!(problems, [""; 0], "check {checks}");
            checks += 1;
        }
        assert!(checks > 5, "{checks} checks beside the writer");
    });
}

#[test]
fn link_to_a_free_slot_is_reported() {
    let mut fixture = Fixture::built(Metric::L2, Data::clustered(300, 8, 16), 4);
    assert_eq!(problems(&fixture), [""; 0]);
    let original = fixture.store.copy();
    let last = original.block_count() - 1;
    // One of the bytes of a page is the state of a slot. The others are of no interest here.
    let is_reported = (24..PAGE_BYTES - 16).any(|at| {
        fixture.store = original.copy();
        fixture.store.damage(last / 2, |page| page.0[at] = 0);
        let problems = problems(&fixture);
        problems
            .iter()
            .any(|text| text.ends_with("which is not a node"))
    });
    assert!(is_reported);
}
