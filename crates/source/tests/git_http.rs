//! Clones of real repositories from a real git server on loopback: kept, updated, limited.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::served::{Served, all, noise};
use git2::Repository;
use rag_definition::source::GitSpec;
use rag_protocol::ErrorKind;
use rag_source::SourceReader;

#[test]
fn a_clone_is_kept_and_only_changes_are_fetched() {
    let served = Served::with_files();
    assert_eq!(served.synced(), served.committed());
    let log = served.server.state().log.clone();
    assert!(
        log.iter()
            .all(|seen| seen.agents.len() == 1 && seen.agents[0].starts_with("git/2")),
        "{log:?}"
    );
    let (methods, first) = served.server.take_log();
    assert_eq!(methods[0], "GET");
    assert!(first > 100_000);
    let clone = Repository::open_bare(served.kept()[0].join("repository.git")).unwrap();
    assert!(clone.is_shallow());
    for folder in [served.place.path().join("clones"), served.kept()[0].clone()] {
        assert_eq!(
            fs::metadata(folder).unwrap().permissions().mode() & 0o777,
            0o700
        );
    }

    assert_eq!(served.synced(), served.committed());
    assert_eq!(
        served.server.take_log(),
        (vec!["GET".to_owned()], 0),
        "an unchanged branch is asked for and not fetched"
    );

    served
        .made
        .write("docs/7.md", b"changed")
        .write("docs/new.md", b"new");
    fs::remove_file(served.made.path().join("docs/8.md")).unwrap();
    served.made.commit();
    assert_eq!(served.synced(), served.committed());
    let (_, second) = served.server.take_log();
    assert!(
        second < 10_000,
        "{second} bytes were sent for two small files"
    );
    assert_eq!(served.packs().len(), 2);
}

#[test]
fn a_rewritten_branch_is_followed() {
    let served = Served::with_files();
    served.synced();
    served.server.take_log();
    let repository = &served.made.repository;
    repository.set_head("refs/heads/other").unwrap();
    served
        .made
        .write("docs/only.md", b"another history")
        .commit();
    let other = repository.head().unwrap().peel_to_commit().unwrap();
    assert_eq!(other.parent_count(), 0);
    repository
        .reference("refs/heads/main", other.id(), true, "forced")
        .unwrap();
    assert_eq!(served.synced(), served.committed());
    assert!(served.synced().contains_key("docs/only.md"));
    let commit = |source: &mut dyn SourceReader| source.list().unwrap().commit;
    assert_eq!(commit(&mut *served.open()), Some(other.id().to_string()));
}

#[test]
fn branches_do_not_share_a_clone() {
    let served = Served::with_files();
    let tip = served
        .made
        .repository
        .head()
        .unwrap()
        .peel_to_commit()
        .unwrap();
    served.made.repository.branch("old", &tip, false).unwrap();
    served.made.write("docs/7.md", b"changed").commit();
    let text = |branch: &str| {
        let spec = GitSpec {
            branch: branch.into(),
            ..served.spec()
        };
        all(&mut *rag_source::open(&served.job(spec)).unwrap())["docs/7.md"].clone()
    };
    assert_eq!(
        (text("main"), text("old"), text("main")),
        (b"changed".into(), b"file 7".into(), b"changed".into())
    );
    assert_eq!(served.kept().len(), 2);
}

#[test]
fn an_interrupted_fetch_is_an_error_and_the_next_one_succeeds() {
    let served = Served::with_files();
    served.server.state().cut = Some(50_000);
    let error = served.failed(served.spec());
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    served.server.state().cut = None;
    assert_eq!(served.synced(), served.committed());

    served
        .made
        .write("large.md", &noise(200_000)[100_000..])
        .commit();
    served.server.take_log();
    served.server.state().cut = Some(50_000);
    assert_eq!(
        served.failed(served.spec()).kind,
        ErrorKind::SourceUnavailable
    );
    served.server.state().cut = None;
    assert_eq!(served.packs().len(), 1, "nothing is left of it");
    served.server.take_log();
    assert_eq!(served.synced(), served.committed());
    let (_, sent) = served.server.take_log();
    assert!(
        sent < 150_000,
        "{sent} bytes: what was there before was fetched again"
    );
}

#[test]
fn a_clone_of_a_killed_job_is_fetched_again() {
    let served = Served::with_files();
    served.synced();
    // what a job leaves that is killed while it fetches: the clone is not said to be whole, and has
    // odds and ends
    let clone = &served.kept()[0];
    fs::remove_file(clone.join("state")).unwrap();
    fs::write(
        clone.join("repository.git/objects/pack/pack_git2_1234"),
        noise(1000),
    )
    .unwrap();
    fs::write(clone.join("repository.git/refs/heads/main.lock"), "").unwrap();
    served.made.write("docs/7.md", b"changed").commit();
    assert_eq!(served.synced(), served.committed());
    assert_eq!(served.packs().len(), 1);
    assert!(!clone.join("repository.git/refs/heads/main.lock").exists());
}

/// Syncs, does something to the only pack of the clone, and looks at what the next run makes of it.
fn damage(what: impl Fn(&Path, Vec<u8>)) {
    let served = Served::with_files();
    for change in [false, true] {
        served.synced();
        if change {
            served.made.write("docs/7.md", b"changed").commit();
        }
        let pack = &served.packs()[0];
        fs::set_permissions(pack, PermissionsExt::from_mode(0o600)).unwrap();
        what(pack, fs::read(pack).unwrap());
        served.server.take_log();
        assert_eq!(served.synced(), served.committed());
        assert!(
            served.server.take_log().1 > 100_000,
            "everything was fetched again"
        );
        assert_eq!(served.synced(), served.committed());
        assert_eq!(
            served.server.take_log(),
            (vec!["GET".to_owned()], 0),
            "once"
        );
    }
}

#[test]
fn a_truncated_clone_is_fetched_again() {
    damage(|pack, bytes| fs::write(pack, &bytes[..bytes.len() / 2]).unwrap());
    damage(|pack, _| fs::write(pack, "").unwrap());
}

#[test]
fn a_clone_without_its_packs_is_fetched_again() {
    damage(|pack, _| fs::remove_file(pack).unwrap());
    damage(|pack, _| fs::remove_dir_all(pack.parent().unwrap().parent().unwrap()).unwrap());
}

#[test]
fn a_corrupted_file_in_the_clone_is_fetched_again() {
    damage(|pack, mut bytes| {
        // amid what cannot be compressed, that is in the large file
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        fs::write(pack, bytes).unwrap();
    });
}

#[test]
fn a_clone_of_too_many_fetches_is_fetched_again() {
    let served = Served::with_files();
    let mut most = 0;
    for i in 0..60 {
        served
            .made
            .write("docs/7.md", format!("change {i}").as_bytes())
            .commit();
        served.open();
        most = most.max(served.packs().len());
    }
    assert!(
        (20..=51).contains(&most) && served.packs().len() < 20,
        "{most} and {}",
        served.packs().len()
    );
    assert_eq!(served.synced(), served.committed());
}

#[test]
fn the_least_recently_used_clones_are_removed() {
    let (one, two) = (Served::with_files(), Served::with_files());
    let open = |served: &Served, max_bytes| {
        let mut job = served.job(served.spec());
        job.clones.dir = one.place.path().join("clones");
        job.clones.max_bytes = max_bytes;
        rag_source::open(&job).unwrap()
    };
    let fetched = |served: &Served| served.server.take_log().1 > 0;
    // Whether a job fetches. Clones that are in use are left to the next job, and a process that
    // another test is just starting has the locks that this one has given back until its program
    // begins.
    let opened = |served: &Served, max_bytes, kept: usize| {
        open(served, max_bytes);
        let fetched = fetched(served);
        for _ in 0..100 {
            if one.kept().len() == kept {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
            open(served, max_bytes);
        }
        assert_eq!(one.kept().len(), kept);
        served.server.take_log();
        fetched
    };
    open(&one, 1 << 20);
    open(&two, 1 << 20);
    assert_eq!(
        (one.kept().len(), fetched(&one), fetched(&two)),
        (2, true, true)
    );
    assert!(
        !opened(&one, 200_000, 1),
        "the clone that was used last stays"
    );
    assert!(opened(&two, 200_000, 1));
    assert!(opened(&one, 1 << 20, 2));

    let mut in_use = open(&one, 1 << 20);
    open(&two, 200_000);
    assert_eq!(
        all(&mut *in_use),
        one.committed(),
        "what a job uses is not removed"
    );
    drop(in_use);

    let mut larger_than_all = open(&two, 1000);
    assert_eq!(all(&mut *larger_than_all), two.committed());
    drop(larger_than_all);
    assert_eq!(
        one.kept(),
        Vec::<PathBuf>::new(),
        "a clone that is too large alone goes with its job"
    );
    open(&one, 1 << 20);
    assert_eq!(all(&mut *open(&two, 0)), two.committed());
    opened(&two, 0, 0);
    for served in [&one, &two] {
        assert!(
            !served.place.path().join("clone").exists(),
            "nor is what a job has used instead"
        );
    }
}

#[test]
fn the_wait_for_a_locked_clone_is_limited() {
    let served = Served::with_files();
    served.synced();
    served.server.take_log();
    let first = served.open();
    std::thread::scope(|scope| {
        let job = served.job(served.spec());
        let second = scope.spawn(move || all(&mut *rag_source::open(&job).unwrap()));
        std::thread::sleep(std::time::Duration::from_millis(300));
        drop(first);
        assert_eq!(second.join().unwrap(), served.committed());
    });
    assert_eq!(
        served.server.take_log().1,
        0,
        "the second one had the clone of the first"
    );
    let _first = served.open();
    assert_eq!(served.synced(), served.committed());
    assert!(
        served.server.take_log().1 > 100_000,
        "it has made one of its own"
    );
    assert_eq!(served.kept().len(), 1);
}

#[test]
fn concurrent_jobs_succeed() {
    let served = Served::with_files();
    std::thread::scope(|scope| {
        let start = |_| {
            let job = served.job(served.spec());
            scope.spawn(move || all(&mut *rag_source::open(&job).unwrap()))
        };
        for running in (0..4).map(start).collect::<Vec<_>>() {
            assert_eq!(running.join().unwrap(), served.committed());
        }
    });
    assert_eq!(served.kept().len(), 1);
}

#[test]
fn the_size_of_a_clone_is_limited_and_an_outgrown_one_is_fetched_again() {
    let served = Served::with_files();
    let limited = |bytes: u64| {
        let mut job = served.job(served.spec());
        job.clones.max_clone_bytes = bytes;
        rag_source::open(&job).map(drop)
    };
    let error = limited(50_000).unwrap_err();
    assert_eq!(error.kind, ErrorKind::LimitExceeded);
    assert!(
        error
            .message
            .ends_with("would be larger than rag.max_clone_size"),
        "{error}"
    );
    assert_eq!(error.detail.as_deref(), Some("The limit is 50000 bytes."));
    limited(300_000).unwrap();
    // each version of the file adds as much; the last alone fits
    for version in 0..4 {
        served.made.write(
            "large.md",
            &noise(600_000)[100_000 * (version + 1)..][..100_000],
        );
        served.made.commit();
        limited(300_000).unwrap();
    }
}
