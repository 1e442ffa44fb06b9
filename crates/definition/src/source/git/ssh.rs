//! Addresses of repositories over ssh: `ssh://user@host:port/path`, and `user@host:path` as scp
//! writes it.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use url::Url;

use super::host_key::HostKey;
use crate::url::has_sendable_host;

const PORT: u16 = 22;
/// What is encoded in a path of a uri, and in a user name.
const IN_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
const IN_USER: &AsciiSet = &IN_PATH.add(b'/').add(b':').add(b'@').add(b'[').add(b']');
const MAX_USER: usize = 256;
const HINT: &str = "Write git@host:path, or ssh://git@host:port/path.";

/// A repository that is read over ssh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshRepository {
    pub server: SshServer,
    /// What `git-upload-pack` gets.
    pub path: String,
    /// The keys of which the server must have one.
    pub host_keys: Vec<HostKey>,
}

/// An account on an ssh server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshServer {
    pub user: String,
    /// As in a URL: in lower case, a name in ASCII, an IPv6 address in brackets.
    pub host: String,
    pub port: u16,
}

impl SshServer {
    /// Returns the host and port as a URL of the web, of which the network guard knows what is
    /// allowed. Returns `None` if they are none.
    pub fn url(&self) -> Option<Url> {
        Url::parse(&format!("https://{}:{}/", self.host, self.port)).ok()
    }

    /// Returns the name that `known_hosts` has for the server.
    pub fn known_name(&self) -> String {
        let host = self.host.trim_matches(['[', ']']);
        if self.port == PORT {
            host.to_owned()
        } else {
            format!("[{host}]:{}", self.port)
        }
    }

    /// Returns true if the first column of a line of `known_hosts` matches the server. A hashed
    /// name counts as a match.
    pub(super) fn is_among(&self, names: &str) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        let own = [self.known_name(), format!("[{host}]:{}", self.port)];
        names.starts_with("|1|")
            || names.split(',').any(|pattern| {
                let pattern = pattern.to_ascii_lowercase();
                own.iter().any(|name| matches(&pattern, name))
            })
    }
}

/// Matches a name with a pattern that has the wildcards `*` and `?`.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // where to continue if the last asterisk takes one more character
    let mut retry = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match retry {
                Some((asterisk, from)) => {
                    retry = Some((asterisk, from + 1));
                    (p, n) = (asterisk + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// The address as a URL. A relative path looks like an absolute one, as hosts of repositories treat
/// both alike.
impl fmt::Display for SshRepository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SshServer { user, host, port } = &self.server;
        write!(f, "ssh://{}@{host}", utf8_percent_encode(user, IN_USER))?;
        if *port != PORT {
            write!(f, ":{port}")?;
        }
        let path = self.path.trim_start_matches('/');
        write!(f, "/{}", utf8_percent_encode(path, IN_PATH))
    }
}

/// A problem with an address, and a hint.
pub(super) type Problem = (&'static str, String);

/// Reads an address. Returns `None` if it is not written as one over ssh.
pub(super) fn parse(text: &str) -> Option<Result<SshRepository, Problem>> {
    if let Some(rest) = text.strip_prefix("ssh://") {
        return Some(url(rest));
    }
    let (authority, path) = text.split_once(':')?;
    if authority.contains('/') || !authority.contains('@') {
        return None;
    }
    // the host is an IPv6 address
    let (authority, path) = match text.split_once("]:") {
        Some((start, path)) if authority.contains('[') => (&text[..=start.len()], path),
        _ => (authority, path),
    };
    let (user, host) = authority.rsplit_once('@')?;
    let port = path.split('/').next().filter(|start| {
        !start.is_empty() && start.bytes().all(|b| b.is_ascii_digit()) && path.contains('/')
    });
    if let Some(port) = port {
        // git takes it for the first folder of the path, and few mean that
        let rest = &path[port.len()..];
        let hint = format!("With a port, write ssh://{user}@{host}:{port}{rest}.");
        return Some(Err(("has a port where the path begins", hint)));
    }
    Some(address(user.to_owned(), host, path.to_owned()))
}

/// Reads what follows `ssh://`.
fn url(rest: &str) -> Result<SshRepository, Problem> {
    let (authority, _) = rest.split_once('/').unwrap_or((rest, ""));
    let path = &rest[authority.len()..];
    let Some((user, host)) = authority.rsplit_once('@') else {
        let hint = format!("Write ssh://git@{rest}, or another user.");
        return Err(("does not name the user", hint));
    };
    if user.contains(':') {
        let hint = "Create a secret with a private key, and name it in the source's credentials.";
        return Err(("must not contain a password", hint.into()));
    }
    let after_colon = host
        .rsplit_once(':')
        .filter(|(_, port)| !port.ends_with(']'));
    if let Some((host, folder)) = after_colon
        && !folder.is_empty()
        && !folder.bytes().all(|b| b.is_ascii_digit())
    {
        let hint = format!("Write ssh://{user}@{host}/{folder}{path}.");
        return Err(("has a path where the port is", hint));
    }
    let decoded = |text: &str| {
        let decoded = percent_decode_str(text).decode_utf8();
        decoded.map(String::from).map_err(|_| no_address())
    };
    let path = decoded(path)?;
    // git leaves a home directory to the server's shell
    let path = match path.strip_prefix('/') {
        Some(home) if home.starts_with('~') => home.to_owned(),
        _ => path,
    };
    address(decoded(user)?, host, path)
}

fn no_address() -> Problem {
    ("is not the URL of a repository", HINT.into())
}

fn address(user: String, host: &str, path: String) -> Result<SshRepository, Problem> {
    let has_control = |text: &str| text.chars().any(|c| c.is_control() || c == '\u{fffd}');
    let is_user = !user.is_empty()
        && user.len() <= MAX_USER
        && !user.starts_with('-')
        && !user.chars().any(char::is_whitespace);
    // a server could take such a path for an option
    let is_path = !path.trim_matches('/').is_empty() && !path.starts_with('-');
    let is_host = !host.is_empty() && !host.contains(['/', '\\', '?', '#', '@', '%']);
    if !is_user || !is_path || !is_host || [&user, &path].into_iter().any(|it| has_control(it)) {
        return Err(no_address());
    }
    let url = Url::parse(&format!("https://{host}/")).map_err(|_| no_address())?;
    let port = match host.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => port.parse().map_err(|_| no_address())?,
        _ => PORT,
    };
    if !has_sendable_host(&url) || port == 0 {
        return Err(no_address());
    }
    let server = SshServer {
        user,
        host: url.host_str().unwrap_or_default().to_owned(),
        port,
    };
    Ok(SshRepository {
        server,
        path,
        host_keys: vec![],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> SshRepository {
        parse(text)
            .unwrap_or_else(|| panic!("{text}"))
            .unwrap_or_else(|e| panic!("{text}: {e:?}"))
    }

    #[test]
    fn addresses_are_those_of_git() {
        for (text, user, host, port, path, url) in [
            (
                "git@Example.org:a/b.git",
                "git",
                "example.org",
                22,
                "a/b.git",
                "ssh://git@example.org/a/b.git",
            ),
            (
                "git@example.org:/srv/a",
                "git",
                "example.org",
                22,
                "/srv/a",
                "ssh://git@example.org/srv/a",
            ),
            (
                "git@git.sr.ht:~me/a",
                "git",
                "git.sr.ht",
                22,
                "~me/a",
                "ssh://git@git.sr.ht/~me/a",
            ),
            (
                "ssh://git@git.sr.ht/~me/a",
                "git",
                "git.sr.ht",
                22,
                "~me/a",
                "ssh://git@git.sr.ht/~me/a",
            ),
            (
                "ssh://git@h.org:7999/p/a%20b.git",
                "git",
                "h.org",
                7999,
                "/p/a b.git",
                "ssh://git@h.org:7999/p/a%20b.git",
            ),
            (
                "ssh://me%40corp.org@h.org:443/p/a?b#c",
                "me@corp.org",
                "h.org",
                443,
                "/p/a?b#c",
                "ssh://me%40corp.org@h.org:443/p/a%3Fb%23c",
            ),
            (
                "ssh://me@corp.org@h.org/p",
                "me@corp.org",
                "h.org",
                22,
                "/p",
                "ssh://me%40corp.org@h.org/p",
            ),
            (
                "git@[2606:4700::1111]:a.git",
                "git",
                "[2606:4700::1111]",
                22,
                "a.git",
                "ssh://git@[2606:4700::1111]/a.git",
            ),
            (
                "ssh://git@[2606:4700::1111]:2222/a",
                "git",
                "[2606:4700::1111]",
                2222,
                "/a",
                "ssh://git@[2606:4700::1111]:2222/a",
            ),
            (
                "git@0x7f.1:a",
                "git",
                "127.0.0.1",
                22,
                "a",
                "ssh://git@127.0.0.1/a",
            ),
            (
                "git@ssh.dev.azure.com:v3/org/project/repo",
                "git",
                "ssh.dev.azure.com",
                22,
                "v3/org/project/repo",
                "ssh://git@ssh.dev.azure.com/v3/org/project/repo",
            ),
            (
                "git@bücher.example:a",
                "git",
                "xn--bcher-kva.example",
                22,
                "a",
                "ssh://git@xn--bcher-kva.example/a",
            ),
            (
                "git@h.org:it's; rm -rf /",
                "git",
                "h.org",
                22,
                "it's; rm -rf /",
                "ssh://git@h.org/it's;%20rm%20-rf%20/",
            ),
        ] {
            let read = read(text);
            let server = &read.server;
            assert_eq!(
                (
                    &*server.user,
                    &*server.host,
                    server.port,
                    &*read.path,
                    &*read.to_string()
                ),
                (user, host, port, path, url)
            );
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        for text in [
            "ssh://git@/a",
            "ssh://git@h.org",
            "ssh://git@h.org/",
            "ssh://-oProxyCommand=x@h.org/a",
            "-oProxyCommand=x@h.org:a",
            "git@h.org:-oProxyCommand=x",
            "git@-oProxyCommand=x:a",
            "ssh://git@-oProxyCommand=x/a",
            "ssh://git@h.org:0/a",
            "ssh://git@h.org:99999/a",
            "ssh://git@h.org/a%00b",
            "ssh://git@h.org/a%0Ab",
            "ssh://git@h.org/a%FFb",
            "git@h.org:",
            "@h.org:a",
            "a b@h.org:a",
            "git@h!.org:a",
            "git@[::bad:a",
        ] {
            let refused = parse(text).unwrap_or_else(|| panic!("{text}")).unwrap_err();
            assert_eq!(refused.0, "is not the URL of a repository", "{text}");
        }
        for (text, problem, hint) in [
            (
                "ssh://h.org/a",
                "does not name the user",
                "Write ssh://git@h.org/a, or another user.",
            ),
            (
                "ssh://me:secret@h.org/a",
                "must not contain a password",
                "Create a secret with",
            ),
            (
                "ssh://git@h.org:group/a.git",
                "has a path where the port is",
                "Write ssh://git@h.org/group/a.git.",
            ),
            (
                "git@h.org:2222/a.git",
                "has a port where the path begins",
                "With a port, write ssh://git@h.org:2222/a.git.",
            ),
        ] {
            let refused = parse(text).unwrap_or_else(|| panic!("{text}")).unwrap_err();
            assert_eq!(refused.0, problem);
            assert!(refused.1.starts_with(hint), "{refused:?}");
        }
        for text in ["https://h.org/a", "docs/a:b", "C:\\repo", "h.org:a", "a"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn patterns_are_those_of_known_hosts() {
        for (pattern, name, expected) in [
            ("*.org", "example.org", true),
            ("e?ample.*", "example.org", true),
            ("*a*e.org", "example.org", true),
            ("*.com", "example.org", false),
            ("example", "example.org", false),
            ("*", "", true),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
