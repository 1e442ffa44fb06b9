# Bytes of an index are changed on disk. Statements then fail with index_corrupted and name the
# block, or return correct rows. The server keeps running, other sessions are undisturbed, and
# REINDEX repairs the index. An index of another format version raises feature_not_supported.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHnsw;

use constant PAGE => 8192;
use constant SPECIAL => 8176;
use constant OTHER_VERSION => 'another format version';

my $node = hnsw_node('damage', conf => "restart_after_crash = on\nshared_buffers = 256MB\n");
if ($node->pg_version >= 18)
{
	# With checksums, the server raises an error before the index reads a changed page.
	$node->stop;
	$node->command_ok([ 'pg_checksums', '--disable', '--pgdata', $node->data_dir ],
		'checksums are off');
	$node->start;
}

# Tables with an index each, all with the same contents: nodes on several levels, tombstones, free
# slots, overflow slots.
my @tables;

sub create_table
{
	my ($metric) = @_;
	my $name = sprintf 'd%03d', scalar @tables;
	$node->safe_psql(
		'postgres', "CREATE TABLE $name (id int PRIMARY KEY, v rag_types.vector);
		SELECT setseed(0.2); INSERT INTO $name SELECT i, point(64) FROM generate_series(1, 700) i;
		CREATE INDEX ${name}_v ON $name USING rag_hnsw (v vector_${metric}_ops)
		WITH (m = 4, ef_construction = 40);
		INSERT INTO $name SELECT 10000 + i, (SELECT v FROM $name WHERE id = 5)
		FROM generate_series(1, 120) i;
		DELETE FROM $name WHERE id BETWEEN 500 AND 700");
	$node->safe_psql('postgres', "VACUUM $name; DELETE FROM $name WHERE id BETWEEN 480 AND 499");
	$node->safe_psql('postgres', "VACUUM $name");
	push @tables, $name;
	return $name;
}

# -- kinds of corruption: each changes some pages of a file
# ----------------------------------------------------------

my $state = 1;
sub random { my ($n) = @_; $state = ($state * 48271) % 2147483647; return int($state / 7) % $n }

# Writes random bytes from an offset on. The first 8 bytes of a page are its LSN: Postgres cannot
# write a page with an LSN in the future.
sub noise
{
	my ($page, $from, $to) = @_;
	substr($$page, $_, 1) = chr random(256) for $from .. $to - 1;
	return;
}
sub flip { my ($page, $at) = @_; substr($$page, $at, 1) ^= chr(1 << random(8)); return }

my %damage = (
	'a flipped bit' => sub { flip($_[0], 8 + random(PAGE - 8)) },
	'flipped bits of a list of links' => sub { flip($_[0], 4096 + random(4000)) for 1 .. 8 },
	'bytes of noise' =>
	  sub { my $at = 8 + random(PAGE - 200); noise($_[0], $at, $at + 1 + random(150)) },
	'a page of noise' => sub { noise($_[0], 24, PAGE) },
	'noise between header and special space' => sub { noise($_[0], 24, SPECIAL) },
	'noise in the special space' => sub { noise($_[0], SPECIAL, SPECIAL + 14) },
	'noise in the header' => sub { noise($_[0], 8, 24) },
	'a page of zeros' => sub { substr($_[0]->$*, 0, PAGE) = "\0" x PAGE },
	'zeros but for the header' =>
	  sub { substr($_[0]->$*, 24, SPECIAL - 24) = "\0" x (SPECIAL - 24) },
	'ones but for the header' =>
	  sub { substr($_[0]->$*, 24, SPECIAL - 24) = "\xff" x (SPECIAL - 24) });

my @cases;
for my $how (sort keys %damage)
{
	push @cases, map { { how => $how, where => $_ } } 'one page', 'five pages', 'the first page',
	  'all pages but the first';
}
# Offsets of fields in the first page. A test in crates/ann/src/hnsw/format.rs compares them with
# the format.
my %field = (
	version => 28,
	metric => 32,
	m => 34,
	dimensions => 40,
	code_dimensions => 44,
	seed => 48,
	centroid => 56,
	entry => 60,
	top_level => 64);
for my $name (qw(metric m dimensions code_dimensions seed centroid entry top_level))
{
	$damage{"a flipped bit of $name"} = sub { substr($_[0]->$*, $field{$name}, 1) ^= "\x02" };
	push @cases, { how => "a flipped bit of $name", where => 'the first page', metric => 'l2' };
}
$damage{ +OTHER_VERSION } = sub { substr($_[0]->$*, $field{version}, 4) = pack 'V', 2 };
push @cases, { how => OTHER_VERSION, where => 'the first page', metric => 'l2' };
push @cases, { how => 'a file that is cut off', where => 'in the middle' },
  { how => 'a file that is cut off', where => 'at the start' },
  { how => 'pages that changed places', where => 'all' },
  { how => 'the page of another index', where => 'one' };

$_->{table} = create_table($_->{metric} // (qw(l2 cosine ip))[ random(3) ]) for @cases;
create_table('l2');    # the other index
my %file = map {
		$_ => $node->data_dir . '/'
	  . $node->safe_psql('postgres', "SELECT pg_relation_filepath('${_}_v')")
} @tables;
is( $node->safe_psql(
		'postgres',
		"SELECT count(*) FROM pg_class c WHERE relname ~ '^d[0-9]+_v' AND EXISTS (
			SELECT FROM rag_check_index(c.oid))"
	),
	'0',
	'all indexes are correct before they are damaged');
my ($pages) = $node->safe_psql('postgres', "SELECT pages FROM rag_hnsw_info('d000_v')");
cmp_ok($pages, '>', 8, 'each index has several pages');
$node->stop;

sub read_file
{
	my ($path) = @_;
	open my $file, '<:raw', $path or die "$path: $!";
	local $/;
	return scalar <$file>;
}

for my $case (@cases)
{
	my $bytes = read_file($file{ $case->{table} });
	my $count = length($bytes) / PAGE;
	my $change = $damage{ $case->{how} };
	my @pages =
		$case->{where} eq 'the first page' ? (0)
	  : $case->{where} eq 'one page' ? (1 + random($count - 1))
	  : $case->{where} eq 'five pages' ? map { 1 + random($count - 1) } 1 .. 5
	  : 1 .. $count - 1;
	if ($change)
	{
		for my $n (@pages)
		{
			my $page = substr $bytes, $n * PAGE, PAGE;
			$change->(\$page);
			substr($bytes, $n * PAGE, PAGE) = $page;
		}
	}
	elsif ($case->{how} eq 'a file that is cut off')
	{
		$bytes = substr $bytes, 0, PAGE * ($case->{where} eq 'at the start' ? 0 : int($count / 2));
	}
	elsif ($case->{how} eq 'pages that changed places')
	{
		$bytes = substr($bytes, 0, PAGE) . join '',
		  reverse map { substr $bytes, $_ * PAGE, PAGE } 1 .. $count - 1;
	}
	else
	{
		substr($bytes, PAGE, PAGE) = substr read_file($file{ $tables[-1] }), 3 * PAGE, PAGE;
	}
	open my $file, '>:raw', $file{ $case->{table} } or die $!;
	print $file $bytes;
	close $file or die $!;
}

# -- statements on a corrupted index
# ----------------------------------------

$node->start;
my $witness = witness($node);

# each statement has its own backend, so that none uses pages cached by another
my %statement = (
	nearest => "SELECT 'recall', recall('%s', operator, 10) FROM hnsw_index('%s')",
	all => "SELECT cardinality(nearest('%s', operator, v, NULL)) FROM query, hnsw_index('%s')
			WHERE dimensions = 64 LIMIT 2",
	check => "SELECT 'problems', count(*) FROM rag_check_index('%s_v')",
	info => "SELECT * FROM rag_hnsw_info('%s_v')",
	recall => "SELECT recall >= 0 FROM rag_hnsw_recall('%s_v', 5)",
	insert => "BEGIN; INSERT INTO %s SELECT 20000 + i, point(64) FROM generate_series(1, 30) i",
	equal =>
	  "BEGIN; INSERT INTO %s SELECT 20000 + i, v FROM generate_series(1, 40) i, (SELECT v FROM %s
			WHERE id = 5) s",
	'delete some' => "DELETE FROM %s WHERE id > 10050; VACUUM (INDEX_CLEANUP on) %s",
	'delete many' => "DELETE FROM %s WHERE id % 3 = 0; VACUUM (INDEX_CLEANUP on) %s",
	'and again' => "SELECT recall('%s', operator, 10) FROM hnsw_index('%s')");
my @order = (
	'nearest', 'all', 'check', 'info', 'recall', 'insert',
	'equal', 'delete some', 'delete many', 'and again');

my %ended = (reported => 0, worked => 0);
for my $case (@cases)
{
	my $table = $case->{table};
	my $script = "\\set ON_ERROR_STOP 0\n";
	$script .=
	  "\\c\n\\warn == $_\nSET statement_timeout = '60s';\n"
	  . ($statement{$_} =~ s/%s/$table/gr) . ";\n"
	  for @order;
	my $result = run_sql($node, $script);
	my @wrong;
	push @wrong, "psql has ended: $result->{err}" if $result->{rc} != 0;
	my @answers = split /^== /m, $result->{err};
	shift @answers;

	for my $answer (@answers)
	{
		# Postgres itself looks at page headers
		my $is_version = $answer =~ join '',
		  qr/ERROR:  0A000: index "${table}_v" has an unsupported format version\n/,
		  qr/DETAIL:  The index has format version \d+\. /,
		  qr/This version of rag supports format version 1\.\n/,
		  qr/HINT:  Use REINDEX INDEX ${table}_v /;
		my $error = qr/ERROR:  XX002: index "${table}_v" is corrupted: .*\nDETAIL:  Block \d+\./;
		my $is_reported = $is_version
		  || $answer =~ /$error\nHINT:  REINDEX INDEX ${table}_v /
		  || $answer =~ /ERROR:  XX001: invalid page in block \d+/;
		push @wrong, "not reported as another version: $answer"
		  if $case->{how} eq OTHER_VERSION and !$is_version and $answer !~ /^check\n/;
		push @wrong, $answer if $answer =~ /ERROR|FATAL|PANIC/ and !$is_reported;
		$ended{ $is_reported ? 'reported' : 'worked' }++;
	}
	await('the server works', sub { run_sql($node, 'SELECT 1')->{rc} == 0 }) if $result->{rc} != 0;
	# slots of zeros are free slots, as vacuum leaves them; only rag_check_index can detect them
	my ($recall) = $result->{out} =~ /^recall\|(.*)/m;
	my ($problems) = $result->{out} =~ /^problems\|(.*)/m;
	push @wrong, 'rag_check_index must return one row for another version'
	  if $case->{how} eq OTHER_VERSION and ($problems // 0) != 1;
	push @wrong, "recall is $recall, and there is no error"
	  if ($recall // 1) < 0.9 and ($case->{how} !~ /zeros but/ or !$problems);
	is(join('', @wrong), '', "$case->{how}, $case->{where} ($table)");
}
cmp_ok($ended{reported}, '>', 50, 'all damage is reported');
cmp_ok($ended{worked}, '>', 50, 'undamaged objects still work');
same_cluster($witness, 'damage');

$node->safe_psql('postgres', "REINDEX INDEX $_->{table}_v") for @cases;
is( $node->safe_psql('postgres', join ' UNION ALL ', map { "SELECT fault('$_->{table}')" } @cases),
	"\n" x $#cases,
	'REINDEX repairs all indexes');

# -- the address of a row that is another row's: as many rows as the table has
# ----------------------------------------

$node->safe_psql(
	'postgres', 'CREATE TABLE twice (id int PRIMARY KEY, v rag_types.vector);
	INSERT INTO twice SELECT i, point(64) FROM generate_series(1, 700) i;
	CREATE INDEX twice_v ON twice USING rag_hnsw (v vector_l2_ops)');
my @rows = split /\n/, $node->safe_psql('postgres', 'SELECT ctid FROM twice WHERE id > 200');
my $path = $node->data_dir . '/'
  . $node->safe_psql('postgres', "SELECT pg_relation_filepath('twice_v')");
$node->stop;
my $bytes = read_file($path);
my $other;
while (@rows > 1)
{
	my ($row, $next) = map { pack 'Vv', /(\d+),(\d+)/ } @rows;
	$other = (splice @rows, 0, 2)[1];
	my @places = $bytes =~ /\Q$row\E/g;
	next if @places != 1;    # also bytes of a code
	$bytes =~ s/\Q$row\E/$next/;
	last;
}
open my $file, '>:raw', $path or die $!;
print $file $bytes;
close $file or die $!;
$node->start;
is( $node->safe_psql('postgres', "SELECT problem FROM rag_check_index('twice_v')"),
	"row $other is indexed twice",
	'rag_check_index finds a row that is indexed in place of another one');
$node->stop;
done_testing();
