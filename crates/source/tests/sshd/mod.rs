//! OpenSSH's server on loopback, without a daemon: each connection has its own `sshd -i`, with a
//! configuration in a folder of the test, for the user who runs the tests.

use std::{
    fs,
    net::TcpListener,
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rag_definition::source::SourceSpec;
use rag_protocol::ingest::{Credentials, Job};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support;

const PROGRAM: &str = "/usr/sbin/sshd";
/// What commands run in: the folder of the repositories, with programs of the test.
const SHELL: &str = "#!/bin/sh
echo \"$SSH_ORIGINAL_COMMAND\" >>\"FOLDER/commands\"
PATH=FOLDER/bin:$PATH
cd \"REPOSITORIES\" && exec sh -c \"$SSH_ORIGINAL_COMMAND\"
";

pub struct Sshd {
    /// Keys, configuration and logs.
    pub folder: TempDir,
    pub port: u16,
    pub user: String,
}

impl Sshd {
    /// Serves the repositories in a folder until the test process ends. Returns `None` without
    /// OpenSSH's server.
    pub fn start(repositories: &Path) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            eprintln!("skipped: {PROGRAM} is missing, which Debian's openssh-server has");
            return None;
        }
        if rustix::process::getuid().is_root() {
            // the server wants it, and only an installed service creates it
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("bin")).unwrap();
        let shell = SHELL
            .replace("FOLDER", folder.path().to_str().unwrap())
            .replace("REPOSITORIES", repositories.to_str().unwrap());
        executable(&at("shell"), &shell);
        let mut configuration = format!(
            "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n\
             AuthorizedKeysFile {}\nForceCommand {}\nLogLevel VERBOSE\n",
            at("authorized").display(),
            at("shell").display(),
        );
        for kind in ["ed25519", "ecdsa", "rsa"] {
            let path = at(&format!("host_{kind}"));
            generate(&path, kind, "");
            configuration += &format!("HostKey {}\n", path.display());
        }
        fs::write(at("configuration"), configuration).unwrap();
        fs::write(at("authorized"), "").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (configuration, log) = (at("configuration"), at("log"));
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let connection = OwnedFd::from(connection);
                let started = Command::new(PROGRAM)
                    .args(["-i", "-f"])
                    .arg(&configuration)
                    .arg("-E")
                    .arg(&log)
                    .stdin(connection.try_clone().unwrap())
                    .stdout(connection)
                    .stderr(Stdio::null())
                    .spawn();
                let mut child = started.unwrap();
                std::thread::spawn(move || child.wait());
            }
        });
        let user = Command::new("id").arg("-un").output().unwrap().stdout;
        Some(Self {
            folder,
            port,
            user: String::from_utf8(user).unwrap().trim().into(),
        })
    }

    /// Creates a private key that opens the account.
    pub fn identity(&self, kind: &str, passphrase: &str) -> Credentials {
        let path = self.key(kind, passphrase);
        let public = fs::read_to_string(path.with_extension("pub")).unwrap();
        let authorized = self.folder.path().join("authorized");
        let former = fs::read_to_string(&authorized).unwrap();
        fs::write(authorized, former + &public).unwrap();
        credentials(&path, passphrase)
    }

    /// Creates a private key that opens nothing.
    pub fn key(&self, kind: &str, passphrase: &str) -> PathBuf {
        let names = fs::read_dir(self.folder.path()).unwrap().count();
        let path = self.folder.path().join(format!("identity_{names}"));
        generate(&path, kind, passphrase);
        path
    }

    /// The public key of the host, without its comment.
    pub fn host_key(&self, kind: &str) -> String {
        let file = self.folder.path().join(format!("host_{kind}.pub"));
        let key = fs::read_to_string(file).unwrap();
        key.trim().rsplit_once(' ').unwrap().0.to_owned()
    }

    pub fn url(&self, path: &str) -> String {
        format!("ssh://{}@127.0.0.1:{}/{path}", self.user, self.port)
    }

    /// A job for a repository of the server, whose key it knows.
    pub fn job(&self, path: &str, place: &Path) -> Job {
        let keys = json!([self.host_key("ed25519")]);
        self.job_of(
            &json!({"repositoryURL": self.url(path), "hostKeys": keys}),
            place,
        )
    }

    pub fn job_of(&self, spec: &Value, place: &Path) -> Job {
        let spec = SourceSpec::parse("git", spec).unwrap();
        let mut job = support::job(spec, place);
        job.limits.max_file_bytes = 1 << 20;
        job.network.allowed_private_hosts = vec!["127.0.0.1".into()];
        job
    }

    /// The commands since the last call.
    pub fn take_commands(&self) -> Vec<String> {
        let file = self.folder.path().join("commands");
        let commands = fs::read_to_string(&file).unwrap_or_default();
        fs::write(file, "").unwrap();
        commands.lines().map(Into::into).collect()
    }

    /// Writes a program that commands find.
    pub fn program(&self, name: &str, text: &str) {
        executable(&self.folder.path().join("bin").join(name), text);
    }
}

/// The credentials that a secret with a private key gives.
pub fn credentials(path: &Path, passphrase: &str) -> Credentials {
    Credentials {
        username: None,
        secret: fs::read_to_string(path).unwrap(),
        passphrase: (!passphrase.is_empty()).then(|| passphrase.into()),
    }
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn generate(path: &Path, kind: &str, passphrase: &str) {
    let mut command = Command::new("ssh-keygen");
    command
        .args(["-q", "-t", kind, "-C", "test", "-N", passphrase, "-f"])
        .arg(path);
    assert!(
        command.status().unwrap().success(),
        "ssh-keygen comes with openssh-client"
    );
}
