# rag-gateway while its server restarts, crashes, and fails over to a standby: each request gets an
# answer or 503, what was answered with 200 is there afterwards, and no connection is leaked.
use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP ();
use POSIX ();
use PostgreSQL::Test::Cluster;
use Test::More;
use Time::HiRes qw(sleep);
use RagCluster;
use RagGateway;

my $CLIENTS = 8;

my $primary = rag_node('failover_primary',
	conf => "wal_level = replica\nmax_wal_senders = 5\nsynchronous_standby_names = ''\n");
$primary->safe_psql(
	'postgres', q{
	CREATE ROLE adm IN ROLE rag_admin;
	SELECT rag_grant_collection('default', 'adm', 'write');
	SELECT rag_add_document('Keys are rotated every 90 days.', 'keys')});
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('failover_standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

# What was answered must survive the promotion.
$primary->append_conf('postgresql.conf', "synchronous_standby_names = '*'\n");
$primary->reload;
await('the standby is synchronous', sub {
	ask($primary, 'SELECT sync_state FROM pg_stat_replication') eq 'sync' });

my ($one, $two) = map { $_->port } $primary, $standby;
my $host = $primary->host;
my $other = $standby->host;
my $gateway;
{
	local $ENV{RAG_GATEWAY_DATABASE} =
	  "host=$host,$other port=$one,$two dbname=postgres target_session_attrs=read-write";
	$gateway = RagGateway->start($primary, connections => 4, timeout => 10);
}
my $key = $gateway->key('adm');
is($gateway->status($key, GET => '/v1/status'), 200, 'the gateway finds the primary');

my $folder = temp_folder();
my $json = JSON::PP->new->utf8->canonical;
my @children;
for my $client (1 .. $CLIENTS)
{
	my $pid = fork // die $!;
	if ($pid == 0)
	{
		# the sessions of the parent do not end as long as this process has their pipes
		POSIX::close($_) for 3 .. 255;
		my $stop = 0;
		local $SIG{TERM} = sub { $stop = 1 };
		open my $log, '>', "$folder/$client" or POSIX::_exit(1);
		my $http = HTTP::Tiny->new(timeout => 30);
		my %headers = (Authorization => "Bearer $key", 'Content-Type' => 'application/json');
		for (my $i = 0; !$stop; $i++)
		{
			my $write = $i % 3 == 0;
			my $uri = "doc-$client-$i";
			my ($path, $body) = $write
			  ? ('/v1/documents', { uri => $uri, content => "Document $uri is about locks." })
			  : ('/v1/search', { query => 'keys' });
			my $response = $http->post($gateway->url . $path,
				{ headers => {%headers}, content => $json->encode($body) });
			printf $log "%s %s\n", $response->{status}, $write ? $uri : 'search';
			$log->flush;
			sleep 0.05 if $response->{status} != 200;
		}
		close $log;
		POSIX::_exit(0);
	}
	push @children, $pid;
}

sub answered
{
	my ($status, $of) = @_;
	my @found;
	for my $client (1 .. $CLIENTS)
	{
		open my $log, '<', "$folder/$client" or next;
		push @found, map { /^$status ($of)$/ ? $1 : () } <$log>;
	}
	return @found;
}

sub goes_on
{
	my ($after) = @_;
	my $before = answered(200, 'search');
	await("requests are answered $after", sub { answered(200, 'search') > $before + 50 });
	return;
}

goes_on('at first');
$primary->restart('fast');
goes_on('after a restart');
$primary->stop('immediate');
$primary->start;
await('the standby has come back', sub {
	ask($primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1 });
goes_on('after a crash');
$primary->stop('immediate');
$standby->promote;
goes_on('after the promotion of the standby');

kill 'TERM', @children;
waitpid $_, 0 for @children;
my %statuses;
for my $client (1 .. $CLIENTS)
{
	open my $log, '<', "$folder/$client" or die $!;
	/^(\d+)/ and $statuses{$1}++ while <$log>;
}
diag(join ', ', map { "$_: $statuses{$_}" } sort keys %statuses);
is(join(' ', grep { !/^(200|503)$/ } sort keys %statuses), '',
	'each request is answered, or refused with 503');
my @written = answered(200, 'doc\S+');
my %stored = map { $_ => 1 }
  split /\n/, $standby->safe_psql('postgres', 'SELECT uri FROM rag.documents');
is(join(' ', grep { !$stored{$_} } @written), '', scalar(@written) . ' documents are all there');
cmp_ok(ask($standby, "SELECT count(*) FROM pg_stat_activity
	WHERE application_name = 'rag-gateway'"), '<=', 4, 'no connection is leaked');
is($gateway->stop, 0, 'the program ends with status 0');
done_testing();
