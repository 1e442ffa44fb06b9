# The value of a secret exists only in the runner of a source that uses it and in its engine, for a
# moment. It is not in the log, views, statistics, dumps, backups or the data directory.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagSecrets;

# an SQL pattern for the value, which does not match itself
my $like_canary = "'%' || reverse('" . reverse($canary) . "') || '%'";
$ENV{RAG_TEST_SECRET} = "$canary-env";

my ($node, $folder, $key_file) = secrets_node('secrets');
my $witness = witness($node);

# -- the runner gets the secret of its source
# ----------------------------------------

ok(!-e $key_file, 'no key file exists before the first secret');
is(create("'token', '$canary-token'")->{rc}, 0, 'a secret can be created');
ok(-f $key_file, 'the first secret creates the key file');
is(sprintf('%04o', (stat $key_file)[2] & 07777), '0600', 'only the server can read the key file');
is((stat $key_file)[4], (stat $node->data_dir)[4], 'the key file belongs to the server');
my $source = create_source('token');
is_deeply(
	engine_credentials($source),
	{ username => undef, secret => "$canary-token" },
	'a token is sent to the engine');

create("'login', '$canary-user', 'username'");
create("'login', '$canary-password', 'password'");
my $login = create_source('login');
is_deeply(
	engine_credentials($login),
	{ username => "$canary-user", secret => "$canary-password" },
	'username and password are sent to the engine');
create("'login', '$canary-newer', 'password'");
is_deeply(
	engine_credentials($login),
	{ username => "$canary-user", secret => "$canary-newer" },
	'a replaced password is sent to the engine');
$node->safe_psql(
	'postgres',
	q{SELECT rag_create_source('plain', 'git',
	'{"repositoryURL": "https://git.example.org/plain.git"}')}
);
is(engine_credentials('plain'), undef, 'a source without credentials sends none');

# -- references are resolved when the run starts
create("'env', 'env:RAG_TEST_SECRET'");
is_deeply(
	engine_credentials(create_source('env')),
	{ username => undef, secret => "$canary-env" },
	'an environment variable of the server can be a secret');
create("'no-env', 'env:RAG_TEST_NO_SECRET'");
is(engine_credentials(my $no_env = create_source('no-env')),
	undef, 'a variable that is not set fails the run');
is( run_row(
		$node, $no_env,
		"errors -> 0 ->> 'sqlstate', errors -> 0 ->> 'message', errors -> 0 ->> 'detail'"),
	'F0000|value of key "token" of secret "no-env" is unavailable|env: the server has no '
	  . 'such environment variable.',
	'the run names the variable that is not set');
my $file = write_file("$folder/token", "$canary-file\n");
create("'file', 'file:$file'");
my $from_file = create_source('file');
is_deeply(
	engine_credentials($from_file),
	{ username => undef, secret => "$canary-file" },
	'a secret file is read without its line end');
write_file($file, "$canary-file2\r\n");
is_deeply(
	engine_credentials($from_file),
	{ username => undef, secret => "$canary-file2" },
	'a secret file is read again for each run');

for my $bad ([ 'empty', '' ], [ 'too large', 'x' x 70000 ], [ 'not UTF-8', "\xff" ])
{
	write_file($file, $bad->[1]);
	is(engine_credentials($from_file), undef, "a secret file that is $bad->[0] fails the run");
	unlike(run_row($node, $from_file, 'errors'),
		qr/\Q$file\E/, "a secret file that is $bad->[0]: the error does not contain its path");
}
unlink $file;
mkdir $file;
is(engine_credentials($from_file), undef, 'a folder as secret file fails the run');

# -- a run has the rights of the source's owner at its start
$node->safe_psql('postgres',
	'CREATE ROLE anna IN ROLE rag_admin; CREATE ROLE team IN ROLE rag_admin, anna');
$node->safe_psql('postgres', "SET ROLE anna; SELECT rag_create_secret('annas', '$canary-anna')");
my $teams = create_source('annas', role => 'team');
is_deeply(
	engine_credentials($teams),
	{ username => undef, secret => "$canary-anna" },
	'a member of the owner can use the secret');
$node->safe_psql('postgres', 'REVOKE anna FROM team');
is(engine_credentials($teams), undef, 'a former member of the owner cannot use the secret');
is(run_row($node, $teams, "errors -> 0 ->> 'sqlstate'"),
	'42501', 'a former member of the owner gets a permission error');

# -- a value is not visible while it is stored
# ----------------------------------------

my $rotating = session($node);
$rotating->query("BEGIN; SELECT rag_rotate_secret_key()");
my $writing = start_sql($node, "SELECT rag_create_secret('waits', '$canary-waiting')");
my $pid = await(
	'rag_create_secret waits',
	sub {
		ask($node,
			"SELECT pid FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND database = 0"
		);
	});
is( ask($node, "SELECT query FROM pg_stat_activity WHERE pid = $pid"),
	'SELECT rag_create_secret(...)',
	'pg_stat_activity does not show the value of a running statement');
my $redacted = 'SELECT rag_create_secret(...)';
await(
	'the wait is logged',
	sub {
		slurp_file($node->logfile) =~
		  /still waiting for ShareLock.*\n(?:.*\n)*?.*STATEMENT:  \Q$redacted\E/;
	});
ask($node, "SELECT pg_cancel_backend($pid)");
my $result = $writing->finish;
error_like($result, '57014', 'canceling statement',
	undef, 'rag_create_secret can be cancelled while it waits');
unlike($result->{err}, qr/\Q$canary\E/,
	'the error of a cancelled rag_create_secret does not contain the value');
$rotating->query('ROLLBACK');

my $idle = session($node);
$idle->query("SELECT rag_create_secret('idle', '$canary-idle')");
$idle->query("BEGIN; SELECT rag_create_secret('idle', '$canary-idle')");
is(ask($node, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE $like_canary"),
	'0', 'pg_stat_activity does not show the value of the last statement');
$idle->query("ROLLBACK");

for my $bad (
	"'token', '$canary-a', 'Bad key'",
	"'$canary', 'value'",
	"'token', repeat('$canary', 9999)",
	"'a', 'env:$canary/'",
	"'a', 'file:$canary'")
{
	my $error = create($bad);
	isnt($error->{rc}, 0, "rag_create_secret is rejected: $bad");
	unlike($error->{err} =~ s/^LINE.*//mr,
		qr/\Q$canary\E/, "the error does not contain the value: $bad");
}
run_sql($node, "DO \$\$ BEGIN PERFORM rag_create_secret('Bad', '$canary-do'); END \$\$");
# what fails after the call in the same statement
run_sql($node,
	"SELECT rag_create_secret('late', '$canary-late'), 1 / (SELECT count(*) FROM rag.secrets WHERE "
	  . "name = 'nowhere')");

# what fails before the call is executed
run_sql($node, "SELECT rag_create_secret('early', '$canary-early', 'a', 'b')");
run_sql($node, "SELECT RAG_CREATE_SECRET('early', '$canary-early') FROM");
run_sql($node, "SELECT 1 / 0, rag_create_secret('early', '$canary-early')");
run_sql($node,
	"DO \$\$ BEGIN PERFORM rag_create_secret('early', '$canary-early'), 1 / 0; END \$\$");
run_sql($node,
	"DO \$\$ BEGIN PERFORM rag_create_secret('early', '$canary-early') FROM nowhere; END \$\$");

# also if all statements are logged with their times, plans and parameters
my %verbose = (
	log_statement => 'all',
	log_min_duration_statement => '0',
	log_parameter_max_length_on_error => '-1',
	log_duration => 'on');
configure($node, $_, $verbose{$_}) for keys %verbose;
run_sql($node, "SELECT rag_create_secret('logged', '$canary-logged')");
run_sql($node, "SELECT rag_create_secret('logged', '$canary-logged', 'Bad key')");
run_sql($node,
		"PREPARE make AS SELECT rag_create_secret(\$1, \$2, \$3); EXECUTE make('logged', "
	  . "'$canary-logged', 'token')");
run_sql($node,
		"PREPARE make AS SELECT rag_create_secret(\$1, \$2, \$3); EXECUTE make('logged', "
	  . "'$canary-logged', 'Bad key')");
my $has_auto_explain = run_sql($node, "LOAD 'auto_explain'")->{rc} == 0;
run_sql(
	$node,
	"LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_verbose = on;
	SELECT rag_create_secret('logged', '$canary-logged')");
# a value in a parse tree is a list of bytes
run_sql(
	$node, "SET debug_print_parse = on; SET debug_print_rewritten = on; SET debug_print_plan = on;
	SELECT rag_create_secret('logged', '$canary-logged')");
my $bytes = join ' ', unpack 'C*', $canary;
unlike(slurp_file($node->logfile),
	qr/$bytes/, 'parse trees and plans in the log do not contain the value');
my $script = write_file("$folder/script",
	"SELECT rag_create_secret('parameter', CAST(:value AS text));\nSELECT rag_create_secret('Bad "
	  . "name', CAST(:value AS text));\n");
# parameters of pgbench are numbers and plain words
IPC::Run::run(
	[
		$node->installed_command('pgbench'), '--no-vacuum',
		'--protocol=extended', '--transactions=1',
		"--define=value=$canary", '--file',
		$script, $node->connstr('postgres')
	],
	'>',
	\my $out,
	'2>',
	\my $err);
like(
	$err,
	qr/invalid name of a secret/,
	'a statement with a parameter fails because of the invalid name');
is( $node->safe_psql(
		'postgres',
		"SELECT string_agg(name, ' ' ORDER BY name) FROM rag.secrets
		WHERE name IN ('logged', 'parameter') AND kind = 'encrypted'"
	),
	'logged parameter',
	'a secret given as parameter is stored');
configure($node, $_, undef) for keys %verbose;
for my $logged (
	qr/LOG:  statement: SELECT rag_create_secret\(\.\.\.\)$/m,
	qr/LOG:  duration: .* ms$/m,
	qr/LOG:  plan:\n.*DETAIL:  \(\.\.\.\)$/m,
	$has_auto_explain ? qr/LOG:  duration: .* plan:\n\s*SELECT rag_create_secret\(\.\.\.\)$/m : (),
	qr/LOG:  execute <unnamed>: SELECT rag_create_secret\(\.\.\.\)\n.*DETAIL:  \(\.\.\.\)$/m)
{
	like(slurp_file($node->logfile), $logged, "the statement is logged: $logged");
}

# -- a value is not visible afterwards
# ----------------------------------------

is_deeply(found($node->logfile), [], 'the log does not contain the value');
like(
	slurp_file($node->logfile),
	qr/STATEMENT:  SELECT rag_create_secret\(\.\.\.\)/,
	'the log contains the statements');
if (has_statistics())
{
	is( ask($node,
			"SELECT count(*) > 0 FROM pg_stat_statements
			WHERE query LIKE 'SELECT rag_create_secret(\$1%'"
		),
		't',
		'pg_stat_statements contains the statements');
	is( ask($node,
			"SELECT count(*) FROM pg_stat_statements WHERE query LIKE $like_canary
			AND query NOT LIKE 'DO %'"
		),
		'0',
		'pg_stat_statements does not contain the value');
}
is(ask($node, "SELECT count(*) FROM rag.runs r WHERE r::text LIKE $like_canary"),
	'0', 'runs and their errors do not contain the value');

# pg_stat_statements keeps the DO block from above, because it cannot replace constants in its text
$node->safe_psql('postgres', 'SELECT pg_stat_statements_reset()') if has_statistics();
my @connect = ('--host', $node->host, '--port', $node->port, '--username', scalar getpwuid $>);
my $dump = "$folder/dump.sql";
is(IPC::Run::run([ 'pg_dump', @connect, '--file', $dump, 'postgres' ], '2>', \$err), 1, 'pg_dump');
is_deeply(found($dump), [], 'a dump does not contain the value');
like(
	slurp_file($dump),
	qr/^COPY rag_internal\.secret_value [^;]*;\n(?:.*\n)*?.*\\\\x01/m,
	'a dump contains the encrypted value');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->backup('base');
is_deeply(found($node->backup_dir . '/base'),
	[], 'a base backup with its WAL does not contain the value');
is_deeply(found($node->data_dir), [], 'the data directory does not contain the value');
is(slurp_file($node->backup_dir . '/base/pg_rag/secret.key'),
	slurp_file($key_file), 'a base backup contains the key file');

same_cluster($witness, 'secrets');
$node->stop;
done_testing();
