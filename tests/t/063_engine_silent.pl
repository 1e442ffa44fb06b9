# The processes of rag-engine connect only to servers of sources, and write only to the data
# directory, although a library that they load would do both. Log lines name the run. Errors have no
# backtrace, whatever RUST_BACKTRACE is.
use strict;
use warnings;
use File::Find qw(find);
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;
use RagCluster;
use RagHold ();

my $home = temp_folder();
local $ENV{HOME} = $home;
local $ENV{XDG_CACHE_HOME} = "$home/cache";
local $ENV{RUST_BACKTRACE} = 'full';
my $node = rag_node('silent', conf => "rag.allowed_private_hosts = '127.0.0.1'");
my $embed = engine_pid($node, 'embed');

# Internet sockets of a process, as lines of the kernel's tables.
sub internet_sockets
{
	my ($pid) = @_;
	my %mine = map { /^socket:\[(\d+)\]$/ ? ($1 => 1) : () }
	  map { readlink($_) // q() } glob "/proc/$pid/fd/*";
	my @found;
	for my $table (qw(tcp tcp6 udp udp6 udplite udplite6 raw raw6))
	{
		open my $in, '<', "/proc/$pid/net/$table" or next;
		push @found, map { "$table $_" } grep { $mine{ (split)[9] // '' } } <$in>;
	}
	return @found;
}

# Plain files that a process has open for writing.
sub written_files
{
	my ($pid) = @_;
	my @found;
	for my $fd (map { s{.*/}{}r } glob "/proc/$pid/fd/*")
	{
		my $path = readlink "/proc/$pid/fd/$fd" // '';
		next unless $path =~ m{^/} && $path !~ m{^/dev/};
		my ($flags) = (eval { slurp_file("/proc/$pid/fdinfo/$fd") } // '') =~ /^flags:\s+(\d+)/m
		  or next;
		push @found, $path if oct($flags) & 3;
	}
	return @found;
}

# Confinement of a process, as the kernel reports it.
sub confinement
{
	my ($pid) = @_;
	my %status = slurp_file("/proc/$pid/status") =~ /^(NoNewPrivs|Seccomp):\s+(\d+)$/mg;
	chomp(my $adjustment = slurp_file("/proc/$pid/oom_score_adj"));
	return "no_new_privs $status{NoNewPrivs}, seccomp $status{Seccomp}, oom_score_adj $adjustment";
}

# while the model is being loaded, and after it
my @sockets;
my $loading = start_sql($node, "SELECT rag_functions.vector_dims(rag_embed('hello'))");
push @sockets, internet_sockets($embed) while $loading->is_waiting;
is($loading->finish->{out}, '384', 'the engine has loaded the model');
push @sockets, internet_sockets($embed);
is_deeply(\@sockets, [], 'embed has no internet socket');
is_deeply([ written_files($embed) ], [], 'embed has no file open for writing');
is( confinement($embed),
	'no_new_privs 1, seccomp 2, oom_score_adj 1000',
	'embed runs without new privileges, with seccomp, and is killed first when memory is low');
my %environment = map { split /=/, $_, 2 } split /\0/, slurp_file("/proc/$embed/environ");
is($environment{ORT_DISABLE_TELEMETRY},
	'1', 'telemetry of ONNX Runtime is off before the library is loaded');
is(join(' ', grep { /HOME|CACHE|RUST/ } keys %environment),
	'', 'the environment of embed contains no home or cache folder');

# during a run: its process, and the process that extracts a page for it
my $page = write_file(temp_folder() . '/page.html',
	'<title>Bread</title><p>Bread is baked in the morning.</p>');
$node->safe_psql('postgres',
	sprintf q{SELECT rag_create_source('pages', 'static', '{"endpoints": ["file://%s", "%s"]}')},
	$page, RagHold::page('second'));
RagHold::hold('second');
my $sync = start_sql($node, "SELECT rag_sync('pages')");
RagHold::await_request('second');
RagCluster::await_stored($node, 'pages');
my $ingest = engine_pid($node, 'ingest');
my @extractors = map { (split)[0] } children_of($ingest);
is(scalar(@extractors), 1, 'a process extracts the second document');

for my $pid (@extractors)
{
	is_deeply([ internet_sockets($pid), written_files($pid) ],
		[], 'extract has no internet socket and no file open for writing');
	is( confinement($pid),
		'no_new_privs 1, seccomp 2, oom_score_adj 1000',
		'extract runs without new privileges and with seccomp');
}
is( confinement($ingest),
	'no_new_privs 1, seccomp 2, oom_score_adj 1000',
	'ingest runs without new privileges and with seccomp');
ok(scalar(internet_sockets($ingest)), 'ingest has the internet socket that its source needs');
RagHold::release('second');
is($sync->finish->{rc}, 0, 'the sync of pages completes');
my @written;
find({ no_chdir => 1, wanted => sub { push @written, $_ if $_ ne $home } }, $home);
is_deeply(\@written, [], 'the home folder of the user stays empty');

# -- the log
# ----------------------------------------

$node->safe_psql('postgres',
	q{SELECT rag_create_source('gone', 'folder', '{"path": "/no/such/folder"}')});
run_sql($node, "SELECT rag_sync('gone')");
my $run = run_row($node, 'gone', 'run_id');
like(
	slurp_file($node->logfile),
	qr{LOG:  rag-engine: ERROR "/no/such/folder" does not exist source=gone run=$run$}m,
	'a log line of a run has source and run id and no empty fields');
run_sql($node, q{SELECT rag_index_knowledge(7, uri => '/no/such/file')});
like(
	slurp_file($node->logfile),
	qr{LOG:  rag-engine: ERROR .*/no/such/?.* knowledge=7$}m,
	'a log line of a knowledge item has its id');

# -- errors
# ----------------------------------------

sub without_backtrace
{
	my ($statement, $sqlstate) = @_;
	my $error = run_sql($node, $statement)->{err};
	like($error, qr/ERROR:  $sqlstate/, "an error has SQLSTATE $sqlstate");
	unlike(
		$error,
		qr/backtrace|rust_|\bcore::|\bstd::|pgrx|^\s+\d+: /m,
		'an error has no backtrace');
	return;
}

without_backtrace("SELECT rag_sync('nowhere')", '42704');
without_backtrace("SELECT rag_create_collection('default')", '42710');
freeze($embed);
without_backtrace("SET statement_timeout = '200ms'; SELECT rag_embed('hello')", '57014');
without_backtrace("SET statement_timeout = '300ms'; SELECT rag_sync('pages')", '57014');
thaw($embed);
unlike(
	slurp_file($node->logfile),
	qr/stack backtrace|core::panicking|std::/,
	'the log contains no backtrace');

$node->stop;
done_testing();
