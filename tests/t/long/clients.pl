# The clients: the tests of clients/python, among them the suites of LangChain, LlamaIndex and
# Haystack, the tests of clients/js, and the programs of the guide's pages on Rust, Go, Java and
# Ruby. Packages come from PyPI and npm. A part whose program or package is missing is skipped, and
# the output tells why.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagLlm;

my $pages = $ENV{RAG_TEST_PAGES};
plan skip_all => 'the clients are not here' if !-d "$pages/clients/python";

my $node = rag_node('clients',
	scheduler => 1,
	conf => "listen_addresses = '127.0.0.1'\nrag.allowed_private_hosts = '127.0.0.1'");
my $origin = RagLlm::origin('good');
$node->safe_psql(
	'postgres', qq{
	CREATE EXTENSION IF NOT EXISTS rag;
	SELECT rag_create_model('good', 'chat', 'openai',
		'{"base_url": "$origin/v1", "model": "tiny"}');});

my $folder = temp_folder();
my ($host, $port, $user) = ($node->host, $node->port, getpwuid $<);
$ENV{PGHOST} = $host;
$ENV{PGPORT} = $port;
$ENV{PGUSER} = $user;
$ENV{PGDATABASE} = 'postgres';
$ENV{RAG_TEST_CHAT_MODEL} = 'good';
$ENV{HAYSTACK_TELEMETRY_ENABLED} = 'False';
$ENV{DATABASE_URL} = "host=$host port=$port user=$user dbname=postgres";
$ENV{JDBC_URL} = "jdbc:postgresql://127.0.0.1:$port/postgres?user=$user";

# Runs a command of the shell. Returns true if it succeeds, and its output.
sub run
{
	my ($command) = @_;
	open my $pipe, '-|', "($command) 2>&1" or die $!;
	local $/;
	my $output = <$pipe> // '';
	return (close $pipe, $output);
}

# Returns why a command that fetches or looks for something fails, or nothing.
sub missing
{
	my ($what, $command) = @_;
	my ($works, $output) = run($command);
	return if $works;
	my ($last) = $output =~ /([^\n]+)\s*\z/;
	return "$what: " . ($last // 'failed');
}

sub read_page
{
	my ($page) = @_;
	open my $file, '<:encoding(UTF-8)', "$pages/docs/guide/$page" or die "$page: $!";
	local $/;
	return scalar <$file>;
}

# The first block of a language in a page.
sub block
{
	my ($page, $language) = @_;
	my ($block) = read_page($page) =~ /^```$language\n(.*?)^```$/ms
	  or die "$page has no block of $language";
	return $block;
}

# Runs the program of a page, which prints what the page says, in an empty collection.
sub program_ok
{
	my ($page, $command) = @_;
	$node->safe_psql('postgres',
		'SELECT count(rag_delete_document(document_id)) FROM rag.documents');
	my ($works, $output) = run($command);
	ok($works && $output eq block($page, 'text'), $page) or diag($output);
}

SKIP:
{
	my $python = "$folder/python/bin/python";
	my $fetch = "python3 -m venv $folder/python && $python -m pip install --quiet "
	  . "'$pages/clients/python[test]'";
	my $why = missing('Python and its packages', $fetch);
	skip $why, 4 if $why;
	my ($works, $output) = run("cd $pages/clients/python && $python -m pytest -q -rs");
	ok($works, 'clients/python') or diag($output);
	my ($passed) = $output =~ /(\d+) passed/;
	note(($passed // 0) . ' tests of clients/python passed');
	unlike($output, qr/\d+ skipped/, 'no test is skipped') or diag($output);
	for my $command ("$python -m mypy", "$python -m ruff check src tests")
	{
		($works, $output) = run("cd $pages/clients/python && $command");
		ok($works, $command =~ s/.*-m //r) or diag($output);
	}
}

SKIP:
{
	my $why = missing('Node.js and its packages',
		"cd $pages/clients/js && npm install --no-audit --no-fund --cache $folder/npm");
	skip $why, 1 if $why;
	my ($works, $output) = run("cd $pages/clients/js && npm test");
	ok($works, 'clients/js') or diag($output);
}

SKIP:
{
	my $program = "$pages/client-rust";
	skip 'Rust: scripts/test.sh has not compiled it', 1 if !-e $program && !-e "$program.log";
	if (!-x $program)
	{
		fail('client-rust.md');
		diag(scalar(run("cat $program.log")));
		last SKIP;
	}
	program_ok('client-rust.md', $program);
}

SKIP:
{
	my $why = missing('Ruby', q{ruby -e 'require "pg"'});
	skip $why, 1 if $why;
	write_file("$folder/notes.rb", block('client-ruby.md', 'ruby'));
	program_ok('client-ruby.md', "ruby $folder/notes.rb");
}

SKIP:
{
	my $jar = '/usr/share/java/postgresql.jar';
	my $why = missing('Java', "java -version && ls $jar");
	skip $why, 1 if $why;
	write_file("$folder/Notes.java", block('client-java.md', 'java'));
	program_ok('client-java.md', "java -cp $jar $folder/Notes.java");
}

# Debian has version 4 of pgx, whose functions the page uses are those of version 5.
SKIP:
{
	my $path = '/usr/share/gocode';
	my $why = missing('Go', "go version && ls $path/src/github.com/jackc/pgx/v4/conn.go");
	skip $why, 1 if $why;
	mkdir "$folder/go";
	write_file("$folder/go/main.go", block('client-go.md', 'go') =~ s{pgx/v5}{pgx/v4}r);
	program_ok('client-go.md',
		"cd $folder/go && GO111MODULE=off GOPATH=$path GOCACHE=$folder/cache go run main.go");
}

$node->stop;
done_testing();
