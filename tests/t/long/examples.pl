# The applications in examples/, set up and run as their pages say. Packages come from PyPI and npm.
# A part whose program or package is missing is skipped, and the output tells why.
use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP qw(decode_json);
use POSIX ();
use Test::More;
use RagBucket;
use RagCluster;
use RagLlm;
use RagTest ();

my $pages = $ENV{RAG_TEST_PAGES};
plan skip_all => 'the examples are not here' if !-d "$pages/examples";

my $node = rag_node('examples',
	scheduler => 1,
	conf => "rag.allowed_private_hosts = '127.0.0.1'");
my $folder = temp_folder();
my $http = HTTP::Tiny->new(timeout => 60);
$ENV{PGHOST} = $node->host;
$ENV{PGPORT} = $node->port;
my ($superuser) = getpwuid $<;
my @servers;
END { local $?; kill 'TERM', @servers if @servers }

# Runs a command of the shell, which connects as a role. Returns true if it succeeds, and its
# output.
sub run
{
	my ($command, $role) = @_;
	local $ENV{PGUSER} = $role // $superuser;
	open my $pipe, '-|', "($command) 2>&1" or die $!;
	local $/;
	my $output = <$pipe> // '';
	return (close $pipe, $output);
}

# Creates a database, and sets an example up in it.
sub set_up
{
	my ($example, %variables) = @_;
	my $database = $example =~ tr/-/_/r;
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$ENV{PGDATABASE} = $database;
	my $variables = join ' ', map { "-v '$_=$variables{$_}'" } sort keys %variables;
	my ($works, $output) =
	  run("cd $pages/examples/$example && psql -qX $variables -f setup.sql");
	ok($works && $output !~ /ERROR/, "$example is set up") or diag($output);
	return $database;
}

# Returns the path of a Python with the packages of an example, or nothing and why not.
sub python
{
	my ($example) = @_;
	my $python = "$folder/$example/bin/python";
	my ($works, $output) = run("python3 -m venv $folder/$example && cd $pages/examples/$example && "
	  . "$python -m pip install --quiet -r requirements.txt");
	return $works ? ($python) : (undef, "packages of Python: $output");
}

# Starts a server of an example, which connects as a role, and waits until it answers.
sub start_server
{
	my ($example, $role, $url, @command) = @_;
	my $pid = fork // die $!;
	if ($pid == 0)
	{
		$ENV{PGUSER} = $role;
		chdir "$pages/examples/$example" or die $!;
		open STDOUT, '>', "$folder/$example.log" or die $!;
		open STDERR, '>&', \*STDOUT or die $!;
		exec @command or POSIX::_exit(1);
	}
	push @servers, $pid;
	ok(RagTest::wait_until(sub { $http->get($url)->{status} != 599 }), "$example answers")
	  or diag(scalar(run("cat $folder/$example.log")));
	return;
}

sub get
{
	my ($url, %headers) = @_;
	my $answer = $http->get($url, { headers => \%headers });
	my $is_json = ($answer->{headers}{'content-type'} // '') =~ /json/;
	return ($answer->{status}, $is_json ? decode_json($answer->{content}) : $answer->{content});
}

# -- documentation search
# ----------------------------------------

SKIP:
{
	my ($python, $why) = python('documentation-search');
	skip $why, 9 if !$python;
	my $database = set_up('documentation-search', folder => RagTest::handbook());
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $site = "http://127.0.0.1:$port";
	start_server('documentation-search', 'docs_web', $site,
		$python, '-m', 'uvicorn', 'app:app', '--port', $port);

	my ($status, $found) = get("$site/api/search?q=how+do+I+rotate+the+signing+keys");
	is($status, 200, 'a search is answered');
	is($found->[0]{title}, 'Rotating the signing keys', 'the best hit is first');
	like($found->[0]{snippet}, qr/<mark>/, 'words of the question are marked');
	($status) = get("$site/api/search?q=");
	is($status, 422, 'an empty question is refused');
	my (undef, $answer) = get("$site/api/answer?q=how+are+keys+rotated");
	like(
		$answer,
		qr/^data: \{"error": ".*model/,
		'without a chat model the page says what is missing');

	my $origin = RagLlm::origin('good');
	$node->safe_psql(
		$database, qq{SELECT rag_create_model('assistant', 'chat', 'openai',
			'{"base_url": "$origin/v1", "model": "tiny"}');
		SELECT rag_grant_model('assistant', 'docs_web');
		ALTER ROLE docs_web SET rag.chat_model = 'assistant'});
	# open connections have the setting of the role as it was
	$node->safe_psql('postgres',
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'docs_web'");
	RagTest::wait_until(sub { (get("$site/api/search?q=keys"))[0] == 200 });
	(undef, $answer) = get("$site/api/answer?q=how+are+keys+rotated");
	like($answer, qr/^data: \{"text": .*^data: \{"sources": \["[^"]+/ms,
		'an answer comes in pieces, with its sources');
	like((get($site))[1], qr/<title>Documentation search/, 'the page is served');
}

# -- support desk
# ----------------------------------------

SKIP:
{
	my ($python, $why) = python('support-desk');
	skip $why, 8 if !$python;
	my $database = set_up('support-desk');
	my $desk = sub {
		my ($tenant, @arguments) = @_;
		my $arguments = join ' ', map { "'$_'" } @arguments;
		my (undef, $output) =
		  run("$python $pages/examples/support-desk/desk.py --tenant $tenant $arguments", 'desk');
		return $output;
	};
	is($desk->('acme', 'new', 'Pump is loud', 'The pump hums and shakes since Monday.'),
		"ticket 1\n", 'a ticket is written');
	is($desk->('acme', 'suggest', 'a strange noise comes out of my pump'),
		"nothing alike\n", 'an open ticket is not suggested');
	is($desk->('globex', 'solve', 1, 'Mine now.'),
		"globex has no ticket 1\n", "a tenant cannot change another's ticket");
	is($desk->('acme', 'solve', 1, 'The rotor was loose. Tighten its two screws.'),
		"ticket 1 is solved\n", 'a ticket is solved');
	RagTest::wait_until(
		sub { $node->safe_psql($database, 'SELECT count(*) FROM rag.chunks') > 0 });
	is( $desk->('acme', 'suggest', 'a strange noise comes out of my pump'),
		"1  Pump is loud: The rotor was loose. Tighten its two screws.\n",
		'a solved ticket is suggested, and nobody has synced');
	is($desk->('globex', 'suggest', 'a strange noise comes out of my pump'),
		"nothing alike\n", "a tenant does not find another's ticket");
	my ($works) = run("psql -qXAt -c 'SELECT * FROM rag.chunks'", 'desk');
	ok(!$works, 'without a tenant the role sees nothing');
}

# -- company wiki
# ----------------------------------------

SKIP:
{
	my ($works, $output) = run(
		"cd $pages/clients/js && npm install --no-audit --no-fund --cache $folder/npm && "
		  . "npm run build && cd $pages/examples/company-wiki && "
		  . "npm install --no-audit --no-fund --cache $folder/npm");
	skip "Node.js and its packages: $output", 8 if !$works;
	write_file("$folder/wiki/public/holidays.md", "# Holidays\n\nWe have 30 days of holiday.");
	write_file("$folder/wiki/public/logo.png", 'no page');
	write_file("$folder/wiki/hr/salaries.md", "# Salaries\n\nSalary band 3 begins at 50,000.");
	my $database = set_up(
		'company-wiki',
		bucket => 'docs',
		endpoint => bucket_server("$folder/wiki"),
		key_id => $RagBucket::KEY_ID,
		secret_key => $RagBucket::SECRET_KEY);
	my $port = $ENV{PORT} = PostgreSQL::Test::Cluster::get_free_port();
	my $site = "http://127.0.0.1:$port";
	start_server('company-wiki', 'wiki_web', $site, 'node', 'server.js');

	my ($status, $found) = get("$site/search?q=how+many+days+of+holiday");
	is($status, 200, 'a search is answered');
	is_deeply([ map { $_->{title} } @$found ], ['Holidays'], 'staff finds public pages');
	(undef, $found) = get("$site/search?q=salary+bands", 'X-Group' => 'hr');
	is($found->[0]{title}, 'Salaries', 'human resources finds its own pages, too');
	(undef, $found) = get("$site/search?q=salary+bands");
	is_deeply([ grep { $_->{title} eq 'Salaries' } @$found ], [], 'staff does not');
	is((get("$site/search?q=x", 'X-Group' => 'board'))[0], 403, 'an unknown group is refused');
	is((get("$site/search"))[0], 400, 'a request without a question is refused');
	($works) = run("psql -qXAt -c \"SELECT * FROM rag_search('salary', 'wiki-hr')\"", 'wiki_web');
	ok(!$works, 'the role of the server cannot read by itself');
}

$node->stop;
done_testing();
