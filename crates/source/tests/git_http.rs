//! Real repositories, cloned from a real git server on loopback.

#![allow(clippy::unwrap_used)] // a helper that cannot go on ends its test

mod repository;
mod server;
mod support;

use std::{
    collections::HashMap,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use git2::Repository;
use rag_protocol::{
    EngineError, ErrorKind,
    ingest::{Credentials, Job},
    spec::{GitSpec, Repository as Named, SourceSpec},
};
use rag_source::Source;
use repository::{Made, names};
use server::Server;
use support::{bytes, job};
use tempfile::TempDir;

/// A repository served over HTTP, and the folder that its clones and works are in.
struct Served {
    made: Made,
    server: Server,
    place: TempDir,
}

impl Served {
    fn new() -> Self {
        let made = Made::new();
        let server = Server::start(made.path());
        Self {
            made,
            server,
            place: tempfile::tempdir().unwrap(),
        }
    }

    /// With one file that no compression makes smaller, and a hundred small ones.
    fn with_files() -> Self {
        let served = Self::new();
        served.made.write("large.md", &noise(100_000));
        for i in 0..100 {
            served
                .made
                .write(&format!("docs/{i}.md"), format!("file {i}").as_bytes());
        }
        served.made.commit();
        served
    }

    fn spec(&self) -> GitSpec {
        GitSpec {
            repository: Named::Https(format!("{}/.git", self.server.url)),
            ..self.made.spec()
        }
    }

    fn at(&self, path: &str) -> GitSpec {
        GitSpec {
            repository: Named::Https(format!("{}{path}", self.server.url)),
            ..self.made.spec()
        }
    }

    fn job(&self, spec: GitSpec) -> Job {
        let mut job = job(SourceSpec::Git(spec), self.place.path());
        job.limits.max_file_bytes = 1 << 20;
        job.network.allowed_private_hosts = vec!["127.0.0.1".into()];
        job
    }

    fn open(&self) -> Box<dyn Source> {
        rag_source::open(&self.job(self.spec())).unwrap()
    }

    fn failed(&self, spec: GitSpec) -> EngineError {
        rag_source::open(&self.job(spec)).err().unwrap()
    }

    /// All files, as one run finds them.
    fn synced(&self) -> HashMap<String, Vec<u8>> {
        all(&mut *self.open())
    }

    /// All files of the folder that is checked out.
    fn committed(&self) -> HashMap<String, Vec<u8>> {
        all(&mut *rag_source::open(&self.job(self.made.spec())).unwrap())
    }

    fn kept(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.place.path().join("clones")) else {
            return vec![];
        };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The packs of the only clone.
    fn packs(&self) -> Vec<PathBuf> {
        let kept = self.kept();
        assert_eq!(kept.len(), 1);
        let entries = fs::read_dir(kept[0].join("repository.git/objects/pack")).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == "pack"))
            .collect()
    }
}

fn all(source: &mut dyn Source) -> HashMap<String, Vec<u8>> {
    let listing = source.list().unwrap();
    assert!(listing.complete && listing.failures.is_empty());
    listing
        .items
        .iter()
        .map(|item| (item.name.clone(), bytes(source, item).unwrap()))
        .collect()
}

/// Bytes without a pattern, the same each time.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let step = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(step).take(length).collect()
}

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
    let commit = |source: &mut dyn Source| source.list().unwrap().commit;
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
fn a_fetch_that_breaks_off_is_an_error_and_the_next_one_succeeds() {
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
fn a_clone_that_a_killed_job_left_is_made_anew() {
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
fn a_truncated_clone_is_made_anew() {
    damage(|pack, bytes| fs::write(pack, &bytes[..bytes.len() / 2]).unwrap());
    damage(|pack, _| fs::write(pack, "").unwrap());
}

#[test]
fn a_clone_without_its_packs_is_made_anew() {
    damage(|pack, _| fs::remove_file(pack).unwrap());
    damage(|pack, _| fs::remove_dir_all(pack.parent().unwrap().parent().unwrap()).unwrap());
}

#[test]
fn a_file_that_has_rotted_in_the_clone_is_fetched_again() {
    damage(|pack, mut bytes| {
        // amid what cannot be compressed, that is in the large file
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        fs::write(pack, bytes).unwrap();
    });
}

#[test]
fn a_clone_of_too_many_fetches_is_made_anew() {
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
fn clones_used_longest_ago_make_room() {
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
fn jobs_that_want_the_same_clone_wait_for_each_other_but_not_forever() {
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
fn jobs_at_once_all_succeed() {
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
fn a_commit_on_the_web_is_found_whatever_the_server_gives_out() {
    let served = Served::new();
    let made = &served.made;
    let first = made.write("a.md", b"one").commit().to_string();
    let second = made.write("a.md", b"two").commit().to_string();
    let text = |commit: &str| {
        let spec = GitSpec {
            commit: Some(commit.into()),
            branch: "nowhere".into(),
            ..served.spec()
        };
        all(&mut *rag_source::open(&served.job(spec)).unwrap())["a.md"].clone()
    };
    for (commit, expected) in [
        (&first[..], b"one"),
        (&first[..12], b"one"),
        (&second[..], b"two"),
        (&second[..9], b"two"),
    ] {
        assert_eq!(text(commit), expected);
        assert!(served.server.take_log().1 > 0);
        made.write("b.md", commit.as_bytes()).commit();
        assert_eq!(text(commit), expected, "it never moves on");
        assert_eq!(
            served.server.take_log(),
            (vec!["GET".to_owned()], 0),
            "and is fetched once"
        );
    }
    made.repository
        .config()
        .unwrap()
        .set_bool("uploadpack.allowAnySHA1InWant", true)
        .unwrap();
    let third = made.write("a.md", b"three").commit().to_string();
    made.write("a.md", b"four").commit();
    let before = served.kept();
    assert_eq!(text(&third), b"three");
    let new = served
        .kept()
        .into_iter()
        .find(|clone| !before.contains(clone))
        .unwrap();
    assert!(
        Repository::open_bare(new.join("repository.git"))
            .unwrap()
            .is_shallow()
    );
    let nothing = GitSpec {
        commit: Some("0123456789".into()),
        ..served.spec()
    };
    let error = served.failed(nothing);
    assert!(
        error
            .message
            .starts_with("there is no commit \"0123456789\" in http"),
        "{}",
        error.message
    );
}

#[test]
fn what_the_server_does_not_have_is_named_with_what_it_has() {
    let served = Served::new();
    let error = served.failed(served.spec());
    assert_eq!(
        error.hint.as_deref(),
        Some("The repository has no branches: it is empty.")
    );
    served.made.write("a.md", b"x").commit();
    let tip = served
        .made
        .repository
        .head()
        .unwrap()
        .peel_to_commit()
        .unwrap()
        .id()
        .to_string();
    let name = std::ffi::OsStr::from_bytes(b".git/refs/heads/caf\xe9");
    fs::write(served.made.path().join(name), tip).unwrap();
    let error = served.failed(GitSpec {
        branch: "trunk".into(),
        ..served.spec()
    });
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    assert_eq!(error.hint.as_deref(), Some("Branches: main."));
    let error = served.failed(served.at("/nothing.git"));
    assert_eq!(
        error.message,
        format!(
            "there is no repository at {}/nothing.git",
            served.server.url
        )
    );
    assert!(error.hint.is_some());
    let error = served.failed(served.at("/page"));
    assert_eq!(
        error.message,
        format!(
            "what answers at {}/page is no git server",
            served.server.url
        )
    );
    assert_eq!(
        all(&mut *served.open()).len(),
        1,
        "and a branch that comes later is found"
    );
}

#[test]
fn a_redirect_is_followed_on_the_same_host_only() {
    let served = Served::new();
    served.made.write("a.md", b"x").commit();
    let mut source = rag_source::open(&served.job(served.at("/moved/.git"))).unwrap();
    assert_eq!(names(&source.list().unwrap()), ["a.md"]);
    let posts = served
        .server
        .state()
        .log
        .iter()
        .filter(|seen| seen.target == "/.git/git-upload-pack")
        .count();
    assert!(
        posts > 0,
        "the redirected address is used for all that follows"
    );
    let error = served.failed(served.at("/away/.git"));
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    assert_eq!(
        error.detail.as_deref(),
        Some("the server redirects to another host, elsewhere.invalid")
    );
}

#[test]
fn passing_faults_are_passed_over_and_lasting_ones_reported() {
    let served = Served::new();
    served.made.write("a.md", b"x").commit();
    served.server.state().faults = vec![503, 429];
    assert_eq!(served.synced(), served.committed());
    served.server.state().faults = vec![500; 20];
    let error = served.failed(served.spec());
    assert_eq!(error.kind, ErrorKind::SourceUnavailable);
    assert_eq!(
        error.message,
        format!("the server of {}/.git cannot answer now", served.server.url)
    );
    served.server.state().faults = vec![418];
    assert_eq!(
        served.failed(served.spec()).message,
        format!("cannot fetch from {}/.git", served.server.url)
    );
}

#[test]
fn a_fetch_does_not_fill_the_file_system() {
    let served = Served::new();
    served.made.write("large.md", &noise(6 << 20)).commit();
    let small = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4m", "none"])
        .arg(small.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("skipped: only the superuser can mount a small file system");
        return;
    }
    let mut job = served.job(served.spec());
    job.clones.dir = small.path().join("clones");
    let error = rag_source::open(&job).err();
    let left = fs::read_dir(small.path().join("clones")).unwrap().count();
    assert!(
        Command::new("umount")
            .arg(small.path())
            .status()
            .unwrap()
            .success()
    );
    let error = error.unwrap();
    assert_eq!(error.kind, ErrorKind::LimitExceeded);
    assert_eq!(
        error.message,
        format!("there is no room for a clone of {}/.git", served.server.url)
    );
    assert_eq!(left, 0, "nothing is left of it");
}

// -- who may ask whom
// -------------------------------------------------------------------------------------------------

const SECRET: &str = "s3cr3t-t0ken";

fn basic(user: &str) -> Option<String> {
    use base64::Engine;
    Some(format!(
        "Basic {}",
        base64::prelude::BASE64_STANDARD.encode(format!("{user}:{SECRET}"))
    ))
}

fn with(mut job: Job, username: Option<&str>, secret: &str) -> Job {
    job.credentials = Some(Credentials {
        username: username.map(Into::into),
        secret: secret.into(),
    });
    job
}

#[test]
fn credentials_open_a_private_repository() {
    let served = Served::with_files();
    let error = || served.failed(served.spec());
    served.server.state().password = basic("x-access-token");
    assert_eq!(
        error().message,
        format!(
            "the server of {}/.git asks for credentials",
            served.server.url
        )
    );
    assert!(error().hint.unwrap().contains("secret"));
    let token = with(served.job(served.spec()), None, SECRET);
    assert_eq!(
        all(&mut *rag_source::open(&token).unwrap()),
        served.committed()
    );

    assert_eq!(
        error().message,
        format!(
            "the server of {}/.git asks for credentials",
            served.server.url
        )
    );
    let wrong = rag_source::open(&with(served.job(served.spec()), None, "wr0ng"))
        .err()
        .unwrap();
    assert_eq!(
        wrong.message,
        format!(
            "the server of {}/.git does not accept the credentials",
            served.server.url
        )
    );
    assert!(wrong.hint.is_some() && !format!("{wrong:?}").contains("wr0ng"));

    served.server.state().password = basic("robot");
    let user = with(served.job(served.spec()), Some("robot"), SECRET);
    assert_eq!(
        all(&mut *rag_source::open(&user).unwrap()),
        served.committed()
    );
    let written = Command::new("grep")
        .args(["-r", "-e", SECRET, "-e", "Basic"])
        .arg(served.place.path())
        .output();
    assert_eq!(
        String::from_utf8(written.unwrap().stdout).unwrap(),
        "",
        "nothing of them is written down"
    );
}

#[test]
fn credentials_are_shown_to_no_other_server() {
    let served = Served::new();
    let elsewhere = Server::start(served.made.path());
    served.made.write("a.md", b"x").commit();
    served.server.state().redirect = Some(elsewhere.url.clone());
    let job = with(served.job(served.spec()), None, SECRET);
    let error = rag_source::open(&job).err().unwrap();
    assert_eq!(
        error.detail.as_deref(),
        Some("the server redirects to another host, 127.0.0.1")
    );
    assert!(!format!("{error:?}").contains(SECRET));
    assert!(elsewhere.state().log.is_empty(), "it was not even asked");
    assert!(
        served
            .server
            .state()
            .log
            .iter()
            .all(|seen| seen.authorization == basic("x-access-token"))
    );
}

#[test]
fn addresses_that_are_not_public_are_refused() {
    let served = Served::new();
    served.made.write("a.md", b"x").commit();
    let refused = |url: &str| {
        let mut job = served.job(GitSpec {
            repository: Named::Https(url.into()),
            ..served.spec()
        });
        job.network.allowed_private_hosts.clear();
        rag_source::open(&job).err().unwrap()
    };
    let error = refused(&format!("{}/.git", served.server.url));
    assert_eq!(
        error.message,
        "spec.repositoryURL: must start with https://"
    );
    let port = served.server.url.rsplit(':').next().unwrap();
    for host in [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
    ] {
        let error = refused(&format!("https://{host}:{port}/.git"));
        assert_eq!(error.kind, ErrorKind::SourceUnavailable);
        assert!(
            error.hint.unwrap().contains("rag.allowed_private_hosts"),
            "{host}"
        );
    }
    assert!(served.server.state().log.is_empty());
}

#[test]
fn a_host_that_cannot_be_reached_is_a_clear_error() {
    let served = Served::new();
    for url in ["https://127.0.0.1:1/a.git", "https://nowhere.invalid/a.git"] {
        let error = served.failed(GitSpec {
            repository: Named::Https(url.into()),
            ..served.spec()
        });
        assert_eq!(
            (error.kind, error.message),
            (
                ErrorKind::SourceUnavailable,
                format!("cannot fetch from {url}")
            )
        );
        assert!(error.hint.is_some() && error.detail.is_some());
    }
}

#[test]
fn repositories_with_longer_ids_are_refused_by_name() {
    let made = Made::new();
    let served = Served::new();
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        assert!(
            Command::new("git")
                .current_dir(folder.path())
                .args(arguments)
                .status()
                .unwrap()
                .success()
        );
    };
    run(&[
        "init",
        "--quiet",
        "--object-format=sha256",
        "--initial-branch=main",
    ]);
    let identity = [
        "-c",
        "user.name=Tester",
        "-c",
        "user.email=tester@example.org",
    ];
    run(&[
        &identity[..],
        &["commit", "--quiet", "--allow-empty", "--message=first"],
    ]
    .concat());
    let server = Server::start(folder.path());
    for repository in [
        Named::Local(folder.path().into()),
        Named::Https(format!("{}/.git", server.url)),
    ] {
        let error = served.failed(GitSpec {
            repository,
            ..made.spec()
        });
        assert!(error.hint.unwrap().contains("SHA-256"));
    }
}

#[test]
fn a_clone_is_bounded_and_an_outgrown_one_is_made_anew() {
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
