#!/bin/sh
# What test-packages.sh runs in a fresh system, as root: packages are installed, used, upgraded and
# removed. Prints a line `ok` or `not ok` for each test.
# shellcheck disable=SC2086 # lists of words
set -u
cd /packages || exit 1
major=$(ls /etc/postgresql)
extension=postgresql-$major-rag
packages="$extension rag-engine rag-model-minilm rag-gateway"

check() { # name, command...: the command succeeds
    name=$1
    shift
    if "$@"; then echo "ok - $name"; else echo "not ok - $name"; fi
}

says() { # text, command...: the command fails, and its output has the text
    text=$1
    shift
    if output=$("$@" 2>&1); then echo "$output"; return 1; fi
    echo "$output"
    case $output in *"$text"*) ;; *) return 1 ;; esac
}

sql() { runuser -u postgres -- psql --no-psqlrc -qAt --set=ON_ERROR_STOP=1 -d docs -c "$1"; }

restart() { pg_ctlcluster "$major" main restart; }

# All files but what servers, apt and dpkg write.
files() {
    find / -xdev ! -path '/proc/*' ! -path '/packages/*' ! -path '/tmp/*' ! -path '/var/log/*' \
        ! -path '/var/cache/*' ! -path '/var/lib/dpkg/*' ! -path '/var/lib/apt/*' \
        ! -path '/var/lib/postgresql/*' ! -path '/run/*' | sort
}

finds() { # what a search for a text must find
    [ "$(sql "SELECT title FROM rag_search('who repairs the pump?', top_k => 1)")" = "$1" ]
}

add_document() {
    sql "SELECT rag_add_document('Ann repairs the pump on Mondays.', 'note:1', title => 'Pump')"
}

no_files_are_left() {
    files >/tmp/after
    diff /tmp/before /tmp/after
}

# --- First install, and the first answer.
pg_ctlcluster "$major" main start
files >/tmp/before
began=$(date +%s.%N)
check 'the packages install without a network' apt-get install -y ./*.deb
echo "shared_preload_libraries = 'rag'" >>"/etc/postgresql/$major/main/postgresql.conf"
restart
runuser -u postgres -- createdb docs
check 'the extension is created' sql 'CREATE EXTENSION rag'
check 'a document is added' add_document
check 'a search finds it' finds Pump
echo "# from apt install to the first answer: $(date +%s.%N) $began" |
    awk '{ printf "# from apt install to the first answer: %.1f s\n", $(NF - 1) - $NF }'
check 'a model is recommended, and the engine is needed' \
    sh -c "dpkg-query -W -f '\${Depends}' $extension | grep -q 'rag-engine (= ' &&
        dpkg-query -W -f '\${Recommends}' $extension | grep -q 'rag-model-minilm'"
check 'all files of the packages are as packed' dpkg --verify $packages

# --- Sources, PDFs and the sandbox, all through the links to the folders of rag-engine.
mkdir /srv/docs
cp -R handbook scan.pdf /srv/docs
chmod -R a+rX /srv/docs
sql "SELECT rag_create_source('handbook', 'folder', '{\"path\": \"/srv/docs\"}')"
sql "SELECT rag_sync('handbook')"
check 'a folder is synced' [ t = "$(sql "SELECT documents_added > 5 FROM rag.runs
    WHERE phase = 'Completed' LIMIT 1")" ]
check 'a PDF is read by PDFium' [ pdfium = "$(sql "SELECT metadata ->> 'pdf_reader'
    FROM rag.documents WHERE uri LIKE '%.pdf'")" ]
check 'the log has no warning of the library or the sandbox' \
    sh -c "! grep -iE 'sandbox|could not load|PANIC' /var/log/postgresql/*.log"

# --- The gateway, as its unit starts it.
useradd --system rag_gateway # systemd does so for DynamicUser
sed -i 's|^#database = "host=/var.*|database = "host=/var/run/postgresql dbname=docs"|' \
    /etc/rag-gateway.toml
unit=$(find /usr/lib/systemd /lib/systemd -name rag-gateway.service | head -n 1)
command=$(sed -n 's/^ExecStart=//p' "$unit")
check 'the settings of the gateway are right' runuser -u rag_gateway -- $command --check
key=$(sql "CREATE ROLE web IN ROLE rag_reader;
    SELECT rag_grant_collection('default', 'web', 'read');
    SELECT rag_create_api_key('test', 'web')" | tail -n 1)
runuser -u rag_gateway -- $command 2>/tmp/gateway.log &
gateway=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
    grep -q 'listening on' /tmp/gateway.log && break
    sleep 0.5
done
request() { # path, body
    perl -MIO::Socket::INET -e '
        my ($path, $body, $key) = @ARGV;
        my $s = IO::Socket::INET->new("127.0.0.1:8088") or die "cannot connect: $!";
        printf $s "POST %s HTTP/1.0\r\nAuthorization: Bearer %s\r\n"
            . "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
            $path, $key, length $body, $body;
        print <$s>;' "$1" "$2" "$key"
}
request /v1/search '{"query": "who repairs the pump?"}' >/tmp/answer 2>&1
cat /tmp/answer /tmp/gateway.log
check 'the gateway finds the document' grep -q Pump /tmp/answer
kill "$gateway"
wait
userdel rag_gateway

# --- What is missing is said.
dpkg --purge --force-depends rag-model-minilm
restart
check 'a missing model is said, with its package' says 'package rag-model-minilm' \
    sql "SELECT rag_embed('a new text')"
dpkg --purge --force-depends rag-engine
restart
check 'a missing engine is said, with its package' says 'package rag-engine' \
    sql "SELECT rag_embed('a new text')"
dpkg -i rag-engine_*.deb rag-model-minilm_*.deb
restart
check 'searches go on when they are back' finds Pump
check 'a package for another server is refused by name' says 'postgresql-99' sh -c "
    rm -rf /tmp/other && dpkg-deb -R ${extension}_*.deb /tmp/other &&
    sed -i 's/postgresql-$major/postgresql-99/' /tmp/other/DEBIAN/control &&
    dpkg-deb -Znone -b /tmp/other /tmp/other.deb >/dev/null &&
    apt-get install -y /tmp/other.deb"
check 'a package for another architecture is refused by name' says 'riscv64' sh -c "
    sed -i 's/^Architecture: .*/Architecture: riscv64/' /tmp/other/DEBIAN/control &&
    dpkg-deb -Znone -b /tmp/other /tmp/other.deb >/dev/null && dpkg -i /tmp/other.deb"

# --- Removal leaves settings, and purge nothing but databases.
check 'the packages are removed' apt-get remove -y $packages
check 'removal keeps the settings of the gateway' test -f /etc/rag-gateway.toml
check 'the packages are purged' apt-get purge -y rag-gateway # has the only settings
rm -rf /srv/docs
check 'purge leaves no file' no_files_are_left
check 'a server without the library says so' says 'could not access file "rag"' \
    sh -c "pg_ctlcluster $major main restart; cat /var/log/postgresql/*.log | tail -n 3; false"

# --- Files of `make install` are not mixed with those of packages.
mkdir "/usr/lib/postgresql/$major/lib/rag"
check 'what make install has left is said' says 'run "make uninstall" first' \
    apt-get install -y ./*.deb
rmdir "/usr/lib/postgresql/$major/lib/rag"
apt-get purge -y $packages

# --- Upgrade.
check 'packages of a lower version install' apt-get install -y ./older/*.deb
restart
check 'documents are still there' finds Pump
echo 'rate_limit = 600' >>/etc/rag-gateway.toml
check 'they are upgraded' apt-get install -y ./*.deb
check 'the settings are kept' grep -q 'rate_limit = 600' /etc/rag-gateway.toml
check 'all are of the new version' [ 4 = "$(dpkg-query -W -f '${Version}\n' $packages |
    grep -cxF "$(dpkg-deb -f rag-engine_*.deb Version)")" ]
check 'searches go on without a restart' finds Pump
restart
check 'searches go on after a restart' finds Pump
check 'a lower version is installed again' \
    apt-get install -y --allow-downgrades ./older/*.deb
apt-get purge -y $packages
check 'purge after an upgrade leaves no file' no_files_are_left
