# Rights on collections on a standby, and in dumps, which restore owners and grants by the names of
# roles.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;

my $primary =
  rag_node('rights', conf => "wal_level = replica\nmax_wal_senders = 5\nhot_standby = on\n");
$primary->safe_psql(
	'postgres', q{
	CREATE ROLE owner LOGIN IN ROLE rag_admin;
	CREATE ROLE reader LOGIN IN ROLE rag_reader;
	CREATE ROLE former LOGIN IN ROLE rag_reader;
	CREATE ROLE intern LOGIN IN ROLE rag_reader;
	CREATE ROLE stranger LOGIN IN ROLE rag_reader;
	SELECT rag_create_collection('staff', owner => 'owner');
	SELECT rag_grant_collection('staff', role, 'read')
	FROM unnest(ARRAY['reader', 'former', 'intern']) AS role;
	SELECT rag_revoke_collection('default', 'rag_reader');
	CREATE POLICY public_only ON rag.chunks AS RESTRICTIVE FOR SELECT TO intern
	USING (category = 'public')}
);
run_sql(
	$primary,
	q{SELECT rag_add_document('Salaries are paid on the 25th.', 'pay', category => 'internal',
		collection => 'staff');
	SELECT rag_add_document('The canteen opens at noon.', 'canteen', category => 'public',
	collection => 'staff')},
	user => 'owner');

# The uris that each role finds and whose documents it sees; - if it has no permission.
sub found
{
	my ($node, $database) = @_;
	return join ' ', map {
		my $role = $_;
		my $search = run_sql(
			$node,
			q{SELECT 'found ' || string_agg(uri, ',' ORDER BY uri)
				FROM rag_search('money', 'staff')},
			database => $database,
			user => $role);
		my ($uris) = $search->{out} =~ /found (\S+)/;
		my $documents = ask_as($node, $database, $role, 'SELECT count(*) FROM rag.documents');
		"$role=" . ($uris // '-') . "/$documents";
	} @_ > 2 ? @_[ 2 .. $#_ ] : qw(owner reader former intern stranger);
}

sub ask_as
{
	my ($node, $database, $role, $query) = @_;
	return $node->safe_psql($database, "SET ROLE $role; $query");
}

my $rights =
  'owner=canteen,pay/2 reader=canteen,pay/2 former=canteen,pay/2 intern=canteen/1 stranger=-/0';
is(found($primary, 'postgres'), $rights, 'each role finds the documents that it can read');

# -- standby
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('rights_standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);
is(found($standby, 'postgres'), $rights, 'each role finds the same documents on a standby');
error_like(run_sql($standby, q{SELECT rag_grant_collection('staff', 'stranger', 'read')}),
	'25006', '.', undef, 'rag_grant_collection is rejected on a standby');
$standby->stop;

# -- a superuser's dump contains everything; grants of a missing role are not restored
my @connect =
  ('--host', $primary->host, '--port', $primary->port, '--username', scalar getpwuid $>);
my $file = temp_folder() . '/dump';
my ($out, $err);
is( IPC::Run::run(
		[ 'pg_dump', @connect, '--format=custom', '--file', $file, 'postgres' ],
		'>', \$out, '2>', \$err),
	1,
	'pg_dump succeeds');
is($err, '', 'pg_dump prints nothing');
$primary->safe_psql('postgres',
	q{DROP OWNED BY former; DROP ROLE former; CREATE DATABASE restored TEMPLATE template0});
is( IPC::Run::run(
		[ 'pg_restore', @connect, '--exit-on-error', '--dbname', 'restored', $file ],
		'>', \$out, '2>', \$err),
	1,
	'the restore succeeds');
is($err, '', 'the restore prints nothing');
my $all = 'SELECT string_agg(d::text, chr(10) ORDER BY document_id) FROM rag.documents d';
is( $primary->safe_psql('restored', $all),
	$primary->safe_psql('postgres', $all),
	'all documents are restored');
my $policies =
  q{SELECT string_agg(concat_ws(' ', tablename, policyname, permissive, roles, cmd, qual), chr(10)
		ORDER BY tablename, policyname)
	FROM pg_policies WHERE schemaname = 'rag'};
$primary->safe_psql('postgres', 'DROP POLICY public_only ON rag.chunks');
is( $primary->safe_psql('restored', $policies),
	$primary->safe_psql('postgres', $policies),
	'each policy of the extension is restored once');
# pg_dump leaves out policies that an administrator has added
$primary->safe_psql(
	'restored',
	"CREATE POLICY public_only ON rag.chunks AS RESTRICTIVE
		FOR SELECT TO intern USING (category = 'public')"
);
my $grants =
  q{SELECT string_agg(collection || ' ' || role || ' ' || privilege, ', ' ORDER BY collection, role)
		FROM rag.collection_grants};
is( $primary->safe_psql('restored', $grants),
	'default rag_admin write, staff intern read, staff reader read',
	'grants to existing roles are restored');
$primary->safe_psql('postgres', 'CREATE ROLE former LOGIN IN ROLE rag_reader');
is( found($primary, 'restored'),
	'owner=canteen,pay/2 reader=canteen,pay/2 former=-/0 intern=canteen/1 stranger=-/0',
	'each role finds the same documents after the restore');

# -- a collection whose owner does not exist
$primary->safe_psql(
	'postgres',
	q{ALTER ROLE owner RENAME TO late; DROP DATABASE restored;
		CREATE DATABASE restored TEMPLATE template0}
);
is(found($primary, 'postgres', 'late'),
	'late=canteen,pay/2', 'a renamed role keeps its collection');
is( IPC::Run::run(
		[ 'pg_restore', @connect, '--exit-on-error', '--dbname', 'restored', $file ],
		'>', \$out, '2>', \$err),
	1,
	'a dump can be restored without the owner of a collection');
$primary->safe_psql('postgres', 'CREATE ROLE owner LOGIN IN ROLE rag_admin');
error_like(
	run_sql(
		$primary, q{SELECT rag_drop_collection('staff')},
		database => 'restored',
		user => 'owner'),
	'42501',
	'permission denied to drop collection',
	undef,
	'a later role with the name of the owner has no privileges');
is($primary->safe_psql('restored', q{SELECT rag_alter_collection('staff', owner => 'late')}),
	'', 'a superuser can change the owner of a collection without owner');
is(found($primary, 'restored', 'late'), 'late=canteen,pay/2', 'the new owner owns the collection');

$primary->stop;
done_testing();
