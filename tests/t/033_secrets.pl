# A secret's value is nowhere but, for a moment, in the runner of a source that uses it and in its
# engine: not in the log, in views, statistics, dumps, backups or the data directory. Its key file
# is private, survives crashes in the middle of a rotation, serves all databases, and is never
# silently replaced.
use strict;
use warnings;
use File::Copy qw(copy move);
use File::Find qw(find);
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

# what nobody may find; each way of writing it has its own ending
my $canary = 'CaNaRy0secret';
# an SQL pattern of it, which does not find itself
my $like_canary = "'%' || reverse('" . reverse($canary) . "') || '%'";
my $folder = temp_folder();
$ENV{RAG_TEST_SECRET} = "$canary-env";

my $node = RagTest::new_node('secrets');
my $libdir = `@{[ $node->installed_command('pg_config') ]} --pkglibdir`;
chomp $libdir;
my $has_statistics = -f "$libdir/pg_stat_statements.so";
# In the place of rag-engine: writes down the job of a run and leaves. All else is the real one's.
my $job_file = "$folder/job";
write_file("$folder/engine", <<PERL);
#!$^X
exec '$libdir/rag/rag-engine', \@ARGV if \$ARGV[0] ne 'ingest';
binmode STDIN;
read STDIN, my \$length, 4 or die;
read STDIN, my \$frame, unpack('V', \$length) or die;
open my \$file, '>', '$job_file' or die;
print \$file substr(\$frame, 4, unpack('V', \$frame));
close \$file;
exit 9;
PERL
chmod 0755, "$folder/engine";
$node->append_conf('postgresql.conf', <<CONF);
shared_preload_libraries = 'rag@{[ $has_statistics ? ',pg_stat_statements' : '' ]}'
log_statement = none
log_lock_waits = on
deadlock_timeout = '10ms'
wal_level = replica
max_wal_senders = 5
rag.engine_path = '$folder/engine'
CONF
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION rag');
$node->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements') if $has_statistics;
my $witness = witness($node);
my $key_file = $node->data_dir . '/pg_rag/secret.key';

# -- the runner is given what its source names
# ------------------------------------------------------------------------

my $sources = 0;

sub create_source
{
	my ($secret, %option) = @_;
	my $name = 'source-' . ++$sources;
	$node->safe_psql('postgres', ($option{role} ? "SET ROLE $option{role}; " : '')
		. qq{SELECT rag_create_source('$name', 'git', '{"repositoryURL": "https://git.example.org/$name.git"}', credentials => '$secret')});
	return $name;
}

# What the engine is given for a source; nothing where its run does not come so far.
sub given
{
	my ($source, $on) = @_;
	unlink $job_file;
	run_sql($on // $node, "SELECT rag_sync('$source')");
	return undef unless -f $job_file;
	my $job = decode_json(slurp_file($job_file));
	unlink $job_file;
	return $job->{credentials};
}

sub create
{
	my ($arguments, %option) = @_;
	return run_sql($option{node} // $node, "SELECT rag_create_secret($arguments)", %option);
}

ok(!-e $key_file, 'there is no key file before the first secret');
is(create("'token', '$canary-token'")->{rc}, 0, 'a secret is made');
ok(-f $key_file, 'and the key file');
is(sprintf('%04o', (stat $key_file)[2] & 07777), '0600', 'which only the server can read');
is((stat $key_file)[4], (stat $node->data_dir)[4], 'and which is its own');
my $source = create_source('token');
is_deeply(given($source), { username => undef, secret => "$canary-token" }, 'a token goes to the engine');

create("'login', '$canary-user', 'username'");
create("'login', '$canary-password', 'password'");
my $login = create_source('login');
is_deeply(given($login), { username => "$canary-user", secret => "$canary-password" }, 'so do username and password');
create("'login', '$canary-newer', 'password'");
is_deeply(given($login), { username => "$canary-user", secret => "$canary-newer" }, 'and what replaces it');
$node->safe_psql('postgres', q{SELECT rag_create_source('plain', 'git', '{"repositoryURL": "https://git.example.org/plain.git"}')});
is(given('plain'), undef, 'a source without credentials has none');

# -- references are looked up when the run begins
create("'env', 'env:RAG_TEST_SECRET'");
is_deeply(given(create_source('env')), { username => undef, secret => "$canary-env" }, 'a variable of the server');
create("'no-env', 'env:RAG_TEST_NO_SECRET'");
is(given(my $no_env = create_source('no-env')), undef, 'a variable that is not set fails the run');
is(run_row($node, $no_env, "errors -> 0 ->> 'sqlstate', errors -> 0 ->> 'message', errors -> 0 ->> 'detail'"),
	'F0000|the value of key "token" of secret "no-env" could not be had|env: the server has no such environment variable.', 'which says why');
my $file = write_file("$folder/token", "$canary-file\n");
create("'file', 'file:$file'");
my $from_file = create_source('file');
is_deeply(given($from_file), { username => undef, secret => "$canary-file" }, 'a file, without its line end');
write_file($file, "$canary-file2\r\n");
is_deeply(given($from_file), { username => undef, secret => "$canary-file2" }, 'as it is now');
for my $bad ([ 'empty', '' ], [ 'too large', 'x' x 70000 ], [ 'not UTF-8', "\xff" ])
{
	write_file($file, $bad->[1]);
	is(given($from_file), undef, "a file that is $bad->[0] fails the run");
	unlike(run_row($node, $from_file, 'errors'), qr/\Q$file\E/, 'without telling its path to everybody');
}
unlink $file;
mkdir $file;
is(given($from_file), undef, 'so does a folder');

# -- rights are those of the source's owner, as they are when the run begins
$node->safe_psql('postgres', 'CREATE ROLE anna IN ROLE rag_admin; CREATE ROLE team IN ROLE rag_admin, anna');
$node->safe_psql('postgres', "SET ROLE anna; SELECT rag_create_secret('annas', '$canary-anna')");
my $teams = create_source('annas', role => 'team');
is_deeply(given($teams), { username => undef, secret => "$canary-anna" }, 'a member uses the secret of a role');
$node->safe_psql('postgres', 'REVOKE anna FROM team');
is(given($teams), undef, 'who is no member any more does not');
is(run_row($node, $teams, "errors -> 0 ->> 'sqlstate'"), '42501', 'and is told so');

# -- a value is not seen while it is written
# --------------------------------------------------------------------------

my $rotating = session($node);
$rotating->query("BEGIN; SELECT rag_rotate_secret_key()");
my $writing = start_sql($node, "SELECT rag_create_secret('waits', '$canary-waiting')");
my $pid = await('rag_create_secret waits', sub {
		ask($node, "SELECT pid FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND database = 0") });
is(ask($node, "SELECT query FROM pg_stat_activity WHERE pid = $pid"), 'SELECT rag_create_secret(...)', 'pg_stat_activity does not show it');
await('the wait is logged', sub { slurp_file($node->logfile) =~ /still waiting for ShareLock.*\n(?:.*\n)*?.*STATEMENT:  SELECT rag_create_secret\(\.\.\.\)/ });
ask($node, "SELECT pg_cancel_backend($pid)");
my $result = $writing->finish;
error_like($result, '57014', 'canceling statement', undef, 'it can be cancelled');
unlike($result->{err}, qr/\Q$canary\E/, 'and the error does not hold it');
$rotating->query('ROLLBACK');

my $idle = session($node);
$idle->query("SELECT rag_create_secret('idle', '$canary-idle')");
$idle->query("BEGIN; SELECT rag_create_secret('idle', '$canary-idle')");
is(ask($node, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE $like_canary"), '0', 'nor what was written last');
$idle->query("ROLLBACK");

for my $bad ("'token', '$canary-a', 'Bad key'", "'$canary', 'value'", "'token', repeat('$canary', 9999)", "'a', 'env:$canary/'", "'a', 'file:$canary'")
{
	my $error = create($bad);
	isnt($error->{rc}, 0, "refused: $bad");
	unlike($error->{err} =~ s/^LINE.*//mr, qr/\Q$canary\E/, 'without repeating it');
}
run_sql($node, "DO \$\$ BEGIN PERFORM rag_create_secret('Bad', '$canary-do'); END \$\$");
# what fails after it in the same statement
run_sql($node, "SELECT rag_create_secret('late', '$canary-late'), 1 / (SELECT count(*) FROM rag.secrets WHERE name = 'nowhere')");

# what fails before it runs
run_sql($node, "SELECT rag_create_secret('early', '$canary-early', 'a', 'b')");
run_sql($node, "SELECT RAG_CREATE_SECRET('early', '$canary-early') FROM");
run_sql($node, "SELECT 1 / 0, rag_create_secret('early', '$canary-early')");
run_sql($node, "DO \$\$ BEGIN PERFORM rag_create_secret('early', '$canary-early'), 1 / 0; END \$\$");
run_sql($node, "DO \$\$ BEGIN PERFORM rag_create_secret('early', '$canary-early') FROM nowhere; END \$\$");

# even where all statements are logged with their times, plans and parameters
my %verbose = (
	log_statement => 'all', log_min_duration_statement => '0', log_parameter_max_length_on_error => '-1', log_duration => 'on');
configure($node, $_, $verbose{$_}) for keys %verbose;
run_sql($node, "SELECT rag_create_secret('logged', '$canary-logged')");
run_sql($node, "SELECT rag_create_secret('logged', '$canary-logged', 'Bad key')");
run_sql($node, "PREPARE make AS SELECT rag_create_secret(\$1, \$2, \$3); EXECUTE make('logged', '$canary-logged', 'token')");
run_sql($node, "PREPARE make AS SELECT rag_create_secret(\$1, \$2, \$3); EXECUTE make('logged', '$canary-logged', 'Bad key')");
run_sql($node, "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_verbose = on;
	SELECT rag_create_secret('logged', '$canary-logged')");
# a value in a tree is a list of bytes
run_sql($node, "SET debug_print_parse = on; SET debug_print_rewritten = on; SET debug_print_plan = on;
	SELECT rag_create_secret('logged', '$canary-logged')");
my $bytes = join ' ', unpack 'C*', $canary;
unlike(slurp_file($node->logfile), qr/$bytes/, 'not in parse trees and plans either');
my $script = write_file("$folder/script", "SELECT rag_create_secret('parameter', CAST(:value AS text));\nSELECT rag_create_secret('Bad name', CAST(:value AS text));\n");
# pgbench's parameters are numbers and plain words
IPC::Run::run([ $node->installed_command('pgbench'), '--no-vacuum', '--protocol=extended', '--transactions=1', "--define=value=$canary",
		'--file', $script, $node->connstr('postgres') ], '>', \my $out, '2>', \my $err);
like($err, qr/invalid name of a secret/, 'a parameter gets as far');
is($node->safe_psql('postgres', "SELECT string_agg(name, ' ' ORDER BY name) FROM rag.secrets WHERE name IN ('logged', 'parameter') AND kind = 'encrypted'"),
	'logged parameter', 'and is stored');
configure($node, $_, undef) for keys %verbose;
for my $logged (qr/LOG:  statement: SELECT rag_create_secret\(\.\.\.\)$/m, qr/LOG:  duration: .* ms$/m, qr/LOG:  plan:\n.*DETAIL:  \(\.\.\.\)$/m, qr/LOG:  duration: .* plan:\n\s*SELECT rag_create_secret\(\.\.\.\)$/m,
	qr/LOG:  execute <unnamed>: SELECT rag_create_secret\(\.\.\.\)\n.*DETAIL:  \(\.\.\.\)$/m)
{
	like(slurp_file($node->logfile), $logged, "logged: $logged");
}

# -- nor afterwards
# ---------------------------------------------------------------------------------------------------

# Files below a folder that hold the canary.
sub found
{
	my @found;
	find({ no_chdir => 1, wanted => sub {
			return unless -f $_ && !-l $_;
			open my $in, '<:raw', $_ or return;
			local $/;
			push @found, $_ if index(<$in> // '', $canary) >= 0;
		} }, @_);
	return \@found;
}

is_deeply(found($node->logfile), [], 'the log does not hold it');
like(slurp_file($node->logfile), qr/STATEMENT:  SELECT rag_create_secret\(\.\.\.\)/, 'where there are its statements');
if ($has_statistics)
{
	is(ask($node, "SELECT count(*) > 0 FROM pg_stat_statements WHERE query LIKE 'SELECT rag_create_secret(\$1%'"), 't', 'pg_stat_statements has them');
	is(ask($node, "SELECT count(*) FROM pg_stat_statements WHERE query LIKE $like_canary AND query NOT LIKE 'DO %'"), '0', 'without it');
}
is(ask($node, "SELECT count(*) FROM rag.runs r WHERE r::text LIKE $like_canary"), '0', 'runs do not hold it');

# pg_stat_statements keeps the DO block of above, whose text nothing can take a constant out of
$node->safe_psql('postgres', 'SELECT pg_stat_statements_reset()') if $has_statistics;
my @connect = ('--host', $node->host, '--port', $node->port, '--username', scalar getpwuid $>);
my $dump = "$folder/dump.sql";
is(IPC::Run::run([ 'pg_dump', @connect, '--file', $dump, 'postgres' ], '2>', \$err), 1, 'pg_dump');
is_deeply(found($dump), [], 'a dump does not hold it');
like(slurp_file($dump), qr/^COPY rag\.secret_value [^;]*;\n(?:.*\n)*?.*\\\\x01/m, 'but its ciphertext');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->backup('base');
is_deeply(found($node->backup_dir . '/base'), [], 'a base backup with its WAL does not hold it');
is_deeply(found($node->data_dir), [], 'nor the data directory');
is(slurp_file($node->backup_dir . '/base/pg_rag/secret.key'), slurp_file($key_file), 'the key file is in a base backup');

# -- the key file
# -----------------------------------------------------------------------------------------------------

# a dump restored where the key file is
$node->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
is(IPC::Run::run([ 'psql', @connect, '--no-psqlrc', '--quiet', '--set', 'ON_ERROR_STOP=1', '--dbname', 'restored', '--file', $dump ],
		'>', \$out, '2>', \$err), 1, 'the dump is restored') or diag($err);
my $secrets = $node->safe_psql('postgres', "SELECT count(*) FROM rag.secrets WHERE kind = 'encrypted'");
is($node->safe_psql('restored', 'SELECT reencrypted FROM rag_rotate_secret_key()'), $secrets, 'its secrets can be decrypted, under another key too');
is_deeply(given($source), { username => undef, secret => "$canary-token" }, 'and those of the other database still');

# not private
chmod 0640, $key_file;
error_like(create("'token', '$canary'"), 'F0000', 'rag\.secret_key_file, is not private', '0600', 'a key file that others may read is refused');
is(given($source), undef, 'by runs too');
chmod 0600, $key_file;

# gone
move($key_file, "$folder/kept.key");
error_like(create("'token', '$canary'"), '58P01', 'rag\.secret_key_file, does not exist', 'copy', 'a missing one is an error where secrets are encrypted');
error_like(run_sql($node, 'SELECT rag_rotate_secret_key()'), '58P01', 'does not exist', undef, 'for rotation too');
is(given($source), undef, 'and for runs');
is(run_row($node, $source, "errors -> 0 ->> 'sqlstate'"), '58P01', 'which say so');
ok(!-e $key_file, 'none is made in its place');
is($node->safe_psql('postgres', 'SELECT bool_or(in_file) FROM rag_secret_keys()'), 'f', 'rag_secret_keys shows what is missing');

# lost for good, which a superuser says explicitly
is(run_sql($node, 'SELECT rag_rotate_secret_key(reencrypt => false)')->{rc}, 0, 'another one is made on request');
$result = create("'token', '$canary-again'");
is($result->{rc}, 0, 'a secret is created again');
like($result->{err}, qr/WARNING:.*are encrypted under keys that are not in the file/, 'with a word about the others');
is_deeply(given($source), { username => undef, secret => "$canary-again" }, 'and used');
is(given($login), undef, 'the others cannot be decrypted');
like(run_row($node, $login, 'errors'), qr/rag\.secret_key_file.*is not in the key file.*could not be decrypted.*F0000/, 'which is said');
# found again: the lines of both
append_to_file("$folder/kept.key", slurp_file($key_file));
move("$folder/kept.key", $key_file);
chmod 0600, $key_file;
is_deeply(given($login), { username => "$canary-user", secret => "$canary-newer" }, 'two key files can be put together');
is_deeply(given($source), { username => undef, secret => "$canary-again" }, 'in one for both');

# elsewhere
mkdir "$folder/keys", 0700;
configure($node, 'rag.secret_key_file', "$folder/keys/rag.key");
error_like(create("'token', '$canary'"), '58P01', 'does not exist', undef, 'another place is no reason for another key');
copy($key_file, "$folder/keys/rag.key");
chmod 0600, "$folder/keys/rag.key";
is_deeply(given($login), { username => "$canary-user", secret => "$canary-newer" }, 'it can be moved');
configure($node, 'rag.secret_key_file', undef);

same_cluster($witness, 'secrets');

# -- rotation
# ---------------------------------------------------------------------------------------------------------

my $under = sub { $node->safe_psql('postgres', "SELECT DISTINCT encryption_key_id FROM rag.secrets WHERE kind = 'encrypted'") };
$node->safe_psql('postgres', 'SELECT rag_rotate_secret_key()');
my $old = $under->();
my $crashing = session($node);
$crashing->query('BEGIN; SELECT rag_rotate_secret_key()');
my $keys = () = slurp_file($key_file) =~ /^rag-secret-key/mg;
$node->stop('immediate');
$node->start;
is($under->(), $old, 'a crash before the commit leaves the secrets under the old key');
is_deeply(given($login), { username => "$canary-user", secret => "$canary-newer" }, 'which is in the file');
is(scalar(() = slurp_file($key_file) =~ /^rag-secret-key/mg), $keys, 'beside the new one');
$node->safe_psql('postgres', 'SELECT rag_rotate_secret_key()');
$node->stop('immediate');
$node->start;
isnt($under->(), $old, 'a crash after the commit, under the new one');
is_deeply(given($login), { username => "$canary-user", secret => "$canary-newer" }, 'which is in the file too');
$node->safe_psql('postgres', "SELECT rag_drop_secret_key('$old')");
unlike(slurp_file($key_file), qr/$old/, 'an old key is dropped on request');
is_deeply(given($login), { username => "$canary-user", secret => "$canary-newer" }, 'and no longer needed');

# many at a time, in several databases, from the very first secret on
$node->safe_psql('postgres', "CREATE DATABASE db$_") for 1 .. 4;
$node->safe_psql("db$_", 'CREATE EXTENSION rag') for 1 .. 4;
configure($node, 'rag.secret_key_file', "$folder/keys/new.key");
my @sessions = map { start_sql($node, "SELECT rag_create_secret('s', '$canary-$_')", database => "db$_") } 1 .. 4;
is(join(' ', map { $_->finish->{rc} } @sessions), '0 0 0 0', 'four databases make their first secret at a time');
is(scalar(() = slurp_file("$folder/keys/new.key") =~ /^rag-secret-key/mg), 1, 'of one key');
@sessions = map { start_sql($node, "SELECT rag_rotate_secret_key() FROM generate_series(1, 5)", database => "db$_") } 1 .. 4;
is(join(' ', map { $_->finish->{rc} } @sessions), '0 0 0 0', 'they rotate it at a time');
is(scalar(() = slurp_file("$folder/keys/new.key") =~ /^rag-secret-key/mg), 21, 'no key is lost');
is(join(' ', map { $node->safe_psql("db$_", 'SELECT reencrypted FROM rag_rotate_secret_key()') } 1 .. 4), '1 1 1 1', 'nor a secret');
is_deeply([ glob "$folder/keys/*.tmp" ], [], 'and nothing is left behind');
configure($node, 'rag.secret_key_file', undef);

# -- a replica
# --------------------------------------------------------------------------------------------------------

$node->backup('replica');
my $standby = PostgreSQL::Test::Cluster->new('secrets_standby');
$standby->init_from_backup($node, 'replica', has_streaming => 1);
# which copies the folder with other modes than it has there
chmod 0600, $standby->data_dir . '/pg_rag/secret.key';
$standby->start;
is($standby->safe_psql('postgres', 'SELECT bool_and(in_file) FROM rag_secret_keys() WHERE encrypted_values > 0'), 't', 'a replica comes with the key file');
error_like(create("'new', '$canary'", node => $standby), '25006', 'cannot execute rag_create_secret', undef, 'and makes no secrets');
$node->safe_psql('postgres', 'SELECT rag_rotate_secret_key()');
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', 'SELECT bool_or(in_file) FROM rag_secret_keys() WHERE encrypted_values > 0'), 'f', 'after a rotation it needs the new key');
$node->stop;
$standby->promote;
is(given($login, $standby), undef, 'without which a promoted replica cannot sync');
copy($key_file, $standby->data_dir . '/pg_rag/secret.key');
chmod 0600, $standby->data_dir . '/pg_rag/secret.key';
is_deeply(given($login, $standby), { username => "$canary-user", secret => "$canary-newer" }, 'and with which it can');
$standby->stop;
is_deeply(found($node->logfile, $standby->logfile), [], 'after all of it the logs do not hold the secret');
done_testing();
