# The key file of secrets is private, survives crashes during a rotation, serves all databases and a
# standby, and is never replaced silently.
use strict;
use warnings;
use File::Copy qw(copy move);
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagSecrets;

my ($node, $folder, $key_file) = secrets_node('secret_key');
my $witness = witness($node);
create("'token', '$canary-token'");
my $source = create_source('token');
create("'login', '$canary-user', 'username'");
create("'login', '$canary-newer', 'password'");
my $login = create_source('login');

# -- the key file
# ----------------------------------------

# a dump restored where the key file exists
my @connect = ('--host', $node->host, '--port', $node->port, '--username', scalar getpwuid $>);
my $dump = "$folder/dump.sql";
my ($out, $err);
is(IPC::Run::run([ 'pg_dump', @connect, '--file', $dump, 'postgres' ], '2>', \$err), 1, 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored TEMPLATE template0');
is( IPC::Run::run(
		[
			'psql', @connect, '--no-psqlrc', '--quiet',
			'--set', 'ON_ERROR_STOP=1', '--dbname', 'restored',
			'--file', $dump
		],
		'>',
		\$out,
		'2>',
		\$err),
	1,
	'the dump can be restored') or diag($err);
my $secrets =
  $node->safe_psql('postgres', "SELECT count(*) FROM rag.secrets WHERE kind = 'encrypted'");
is($node->safe_psql('restored', 'SELECT reencrypted FROM rag_rotate_secret_key()'),
	$secrets, 'restored secrets can be decrypted and rotated');
is_deeply(
	engine_credentials($source),
	{ username => undef, secret => "$canary-token" },
	'secrets of the other database can still be decrypted');

# a key file that is not private
chmod 0640, $key_file;
error_like(
	create("'token', '$canary'"),
	'F0000', 'rag\.secret_key_file has insecure permissions',
	'0600', 'a key file that others can read is rejected');
is(engine_credentials($source), undef, 'a run rejects a key file that others can read');
chmod 0600, $key_file;

# a missing key file
move($key_file, "$folder/kept.key");
error_like(
	create("'token', '$canary'"),
	'58P01', 'rag\.secret_key_file does not exist',
	'copy', 'a missing key file is an error for rag_create_secret');
error_like(
	run_sql($node, 'SELECT rag_rotate_secret_key()'),
	'58P01', 'does not exist',
	undef, 'a missing key file is an error for rag_rotate_secret_key');
is(engine_credentials($source), undef, 'a missing key file fails a run');
is(run_row($node, $source, "errors -> 0 ->> 'sqlstate'"),
	'58P01', 'the run reports the missing key file');
ok(!-e $key_file, 'a missing key file is not created again automatically');
is($node->safe_psql('postgres', 'SELECT bool_or(in_file) FROM rag_secret_keys()'),
	'f', 'rag_secret_keys reports the missing key');

# a key file that is lost for good, as a superuser states explicitly
is(run_sql($node, 'SELECT rag_rotate_secret_key(reencrypt => false)')->{rc},
	0, 'rag_rotate_secret_key can create a new key file');
my $result = create("'token', '$canary-again'");
is($result->{rc}, 0, 'a secret can be created with the new key file');
like(
	$result->{err},
	qr/WARNING:.*are encrypted under keys that are not in the file/,
	'rag_rotate_secret_key warns about values of the missing key');
is_deeply(
	engine_credentials($source),
	{ username => undef, secret => "$canary-again" },
	'a run uses a secret of the new key file');
is(engine_credentials($login), undef, 'secrets of the missing key fail a run');
like(
	run_row($node, $login, 'errors'),
	qr/rag\.secret_key_file.*does not contain its key.*could not decrypt.*F0000/,
	'the run reports that the key is missing');
# a key file that was found again: lines of both files
append_to_file("$folder/kept.key", slurp_file($key_file));
move("$folder/kept.key", $key_file);
chmod 0600, $key_file;
is_deeply(
	engine_credentials($login),
	{ username => "$canary-user", secret => "$canary-newer" },
	'two key files can be concatenated');
is_deeply(
	engine_credentials($source),
	{ username => undef, secret => "$canary-again" },
	'concatenated key files decrypt the secrets of both');

# a key file in another place
mkdir "$folder/keys", 0700;
configure($node, 'rag.secret_key_file', "$folder/keys/rag.key");
error_like(
	create("'token', '$canary'"),
	'58P01', 'does not exist',
	undef, 'a changed rag.secret_key_file does not create a new key');
copy($key_file, "$folder/keys/rag.key");
chmod 0600, "$folder/keys/rag.key";
is_deeply(
	engine_credentials($login),
	{ username => "$canary-user", secret => "$canary-newer" },
	'the key file can be moved');
configure($node, 'rag.secret_key_file', undef);

same_cluster($witness, 'keys of secrets');

# -- rotation
# ----------------------------------------

my $under = sub {
	$node->safe_psql('postgres',
		"SELECT DISTINCT encryption_key_id FROM rag.secrets WHERE kind = 'encrypted'");
};
$node->safe_psql('postgres', 'SELECT rag_rotate_secret_key()');
my $old = $under->();
my $crashing = session($node);
$crashing->query('BEGIN; SELECT rag_rotate_secret_key()');
my $keys = () = slurp_file($key_file) =~ /^rag-secret-key/mg;
$node->stop('immediate');
$node->start;
is($under->(), $old, 'a crash before the commit of a rotation keeps the old key in use');
is_deeply(
	engine_credentials($login),
	{ username => "$canary-user", secret => "$canary-newer" },
	'the secret can be decrypted after a crash before the commit');
is(scalar(() = slurp_file($key_file) =~ /^rag-secret-key/mg),
	$keys, 'the key file has the new key after a crash before the commit');
$node->safe_psql('postgres', 'SELECT rag_rotate_secret_key()');
$node->stop('immediate');
$node->start;
isnt($under->(), $old, 'a crash after the commit of a rotation keeps the new key in use');
is_deeply(
	engine_credentials($login),
	{ username => "$canary-user", secret => "$canary-newer" },
	'the secret can be decrypted after a crash after the commit');
$node->safe_psql('postgres', "SELECT rag_drop_secret_key('$old')");
unlike(slurp_file($key_file), qr/$old/, 'rag_drop_secret_key drops an old key');
is_deeply(
	engine_credentials($login),
	{ username => "$canary-user", secret => "$canary-newer" },
	'secrets can be decrypted without the dropped key');

# many sessions at once, in several databases, from the first secret on
$node->safe_psql('postgres', "CREATE DATABASE db$_") for 1 .. 4;
$node->safe_psql("db$_", 'CREATE EXTENSION rag') for 1 .. 4;
configure($node, 'rag.secret_key_file', "$folder/keys/new.key");
my @sessions =
  map { start_sql($node, "SELECT rag_create_secret('s', '$canary-$_')", database => "db$_") }
  1 .. 4;
is(join(' ', map { $_->finish->{rc} } @sessions),
	'0 0 0 0', 'four databases can create their first secret at once');
is(scalar(() = slurp_file("$folder/keys/new.key") =~ /^rag-secret-key/mg),
	1, 'four databases use the same key');
@sessions = map {
	start_sql(
		$node,
		"SELECT rag_rotate_secret_key() FROM generate_series(1, 5)",
		database => "db$_")
} 1 .. 4;
is(join(' ', map { $_->finish->{rc} } @sessions),
	'0 0 0 0', 'four databases can rotate the key at once');
is(scalar(() = slurp_file("$folder/keys/new.key") =~ /^rag-secret-key/mg),
	21, 'no key is lost in concurrent rotations');
is( join(' ',
		map { $node->safe_psql("db$_", 'SELECT reencrypted FROM rag_rotate_secret_key()') } 1 .. 4),
	'1 1 1 1',
	'no secret is lost in concurrent rotations');
is_deeply([ glob "$folder/keys/*.tmp" ], [], 'concurrent rotations leave no temporary files');
configure($node, 'rag.secret_key_file', undef);

# -- a standby
# ----------------------------------------

$node->backup('replica');
my $standby = PostgreSQL::Test::Cluster->new('secrets_standby');
$standby->init_from_backup($node, 'replica', has_streaming => 1);
# which copies the folder with other permissions
chmod 0600, $standby->data_dir . '/pg_rag/secret.key';
$standby->start;
is( $standby->safe_psql(
		'postgres', 'SELECT bool_and(in_file) FROM rag_secret_keys() WHERE encrypted_values > 0'),
	't',
	'a standby has the key file of its base backup');
error_like(
	create("'new', '$canary'", node => $standby),
	'25006', 'cannot execute rag_create_secret',
	undef, 'secrets cannot be created on a standby');
$node->safe_psql('postgres', 'SELECT rag_rotate_secret_key()');
$node->wait_for_catchup($standby);
is( $standby->safe_psql(
		'postgres', 'SELECT bool_or(in_file) FROM rag_secret_keys() WHERE encrypted_values > 0'),
	'f',
	'a standby needs the new key after a rotation');
$node->stop;
$standby->promote;
is(engine_credentials($login, $standby),
	undef, 'a promoted standby without the new key cannot sync');
copy($key_file, $standby->data_dir . '/pg_rag/secret.key');
chmod 0600, $standby->data_dir . '/pg_rag/secret.key';
is_deeply(
	engine_credentials($login, $standby),
	{ username => "$canary-user", secret => "$canary-newer" },
	'a promoted standby with the new key can sync');
$standby->stop;
is_deeply(found($node->logfile, $standby->logfile),
	[], 'the logs do not contain the value after all tests');
done_testing();
