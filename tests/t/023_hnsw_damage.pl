# Bytes of an index are changed on disk. Whatever is done with it then ends in an error that says
# index_corrupted and names the block, or gives right answers; the server lives on, other sessions
# are undisturbed, and REINDEX heals.
use strict;
use warnings;
use Test::More;
use RagCluster;
use RagHnsw;

use constant PAGE => 8192;
use constant SPECIAL => 8176;

my $node = hnsw_node('damage', conf => "restart_after_crash = on\nshared_buffers = 256MB\n");

# Tables with an index each, all of the same content: nodes on several levels, tombstones, free
# slots, overflow slots.
my @tables;

sub create_table
{
	my ($metric) = @_;
	my $name = sprintf 'd%03d', scalar @tables;
	$node->safe_psql('postgres', "CREATE TABLE $name (id int PRIMARY KEY, v rag_types.vector);
		SELECT setseed(0.2); INSERT INTO $name SELECT i, point(64) FROM generate_series(1, 700) i;
		CREATE INDEX ${name}_v ON $name USING rag_hnsw (v vector_${metric}_ops) WITH (m = 4, ef_construction = 40);
		INSERT INTO $name SELECT 10000 + i, (SELECT v FROM $name WHERE id = 5) FROM generate_series(1, 120) i;
		DELETE FROM $name WHERE id BETWEEN 500 AND 700");
	$node->safe_psql('postgres', "VACUUM $name; DELETE FROM $name WHERE id BETWEEN 480 AND 499");
	$node->safe_psql('postgres', "VACUUM $name");
	push @tables, $name;
	return $name;
}

# -- kinds of damage: each changes some of the pages of a file
# ----------------------------------------------------------

my $state = 1;
sub random { my ($n) = @_; $state = ($state * 48271) % 2147483647; return int($state / 7) % $n }

# Bytes of noise from an offset on. The first 8 bytes of a page are the place of its last record in
# the write-ahead log: a page from the future cannot be written, whosever it is.
sub noise { my ($page, $from, $to) = @_; substr($$page, $_, 1) = chr random(256) for $from .. $to - 1; return }
sub flip { my ($page, $at) = @_; substr($$page, $at, 1) ^= chr(1 << random(8)); return }

my %damage = (
	'a flipped bit' => sub { flip($_[0], 8 + random(PAGE - 8)) },
	'flipped bits of a list of links' => sub { flip($_[0], 4096 + random(4000)) for 1 .. 8 },
	'bytes of noise' => sub { my $at = 8 + random(PAGE - 200); noise($_[0], $at, $at + 1 + random(150)) },
	'a page of noise' => sub { noise($_[0], 24, PAGE) },
	'noise between header and special space' => sub { noise($_[0], 24, SPECIAL) },
	'noise in the special space' => sub { noise($_[0], SPECIAL, SPECIAL + 14) },
	'noise in the header' => sub { noise($_[0], 8, 24) },
	'a page of zeros' => sub { substr($_[0]->$*, 0, PAGE) = "\0" x PAGE },
	'zeros but for the header' => sub { substr($_[0]->$*, 24, SPECIAL - 24) = "\0" x (SPECIAL - 24) },
	'ones but for the header' => sub { substr($_[0]->$*, 24, SPECIAL - 24) = "\xff" x (SPECIAL - 24) });

my @cases;
for my $how (sort keys %damage)
{
	push @cases, map { { how => $how, where => $_ } } 'one page', 'five pages', 'the first page', 'all pages but the first';
}
# where the first page says what the index is
my %field = (metric => 32, m => 34, dimensions => 40, 'code dimensions' => 44, seed => 48, centroid => 56, 'entry point' => 60, 'top level' => 64);
for my $name (sort keys %field)
{
	$damage{"a flipped bit of the $name"} = sub { substr($_[0]->$*, $field{$name}, 1) ^= "\x02" };
	push @cases, { how => "a flipped bit of the $name", where => 'the first page', metric => 'l2' };
}
push @cases, { how => 'a file that is cut off', where => 'in the middle' }, { how => 'a file that is cut off', where => 'at the start' },
  { how => 'pages that changed places', where => 'all' }, { how => 'the page of another index', where => 'one' };

$_->{table} = create_table($_->{metric} // (qw(l2 cosine ip))[ random(3) ]) for @cases;
create_table('l2');    # the other index
my %file = map { $_ => $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('${_}_v')") } @tables;
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class c WHERE relname ~ '^d[0-9]+_v' AND EXISTS (SELECT FROM rag_index_check(c.oid))"), '0',
	'all is sound before');
my ($pages) = $node->safe_psql('postgres', "SELECT pages FROM rag_index_info('d000_v')");
cmp_ok($pages, '>', 8, 'an index has several pages');
$node->stop;

sub read_file { my ($path) = @_; open my $file, '<:raw', $path or die "$path: $!"; local $/; return scalar <$file> }

for my $case (@cases)
{
	my $bytes = read_file($file{ $case->{table} });
	my $count = length($bytes) / PAGE;
	my $change = $damage{ $case->{how} };
	my @pages = $case->{where} eq 'the first page' ? (0)
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
		$bytes = substr($bytes, 0, PAGE) . join '', reverse map { substr $bytes, $_ * PAGE, PAGE } 1 .. $count - 1;
	}
	else
	{
		substr($bytes, PAGE, PAGE) = substr read_file($file{ $tables[-1] }), 3 * PAGE, PAGE;
	}
	open my $file, '>:raw', $file{ $case->{table} } or die $!;
	print $file $bytes;
	close $file or die $!;
}

# -- what is done with a damaged index
# ----------------------------------------------------------------------------------

$node->start;
my $witness = witness($node);

# A backend for each, so that none profits of what another has read.
my %statement = (
	nearest => "SELECT 'recall', recall('%s', operator, 10) FROM hnsw_index('%s')",
	all => "SELECT cardinality(nearest('%s', operator, v, NULL)) FROM query, hnsw_index('%s') WHERE dimensions = 64 LIMIT 2",
	check => "SELECT 'problems', count(*) FROM rag_index_check('%s_v')",
	info => "SELECT * FROM rag_index_info('%s_v')",
	recall => "SELECT recall >= 0 FROM rag_index_recall('%s_v', 5)",
	insert => "BEGIN; INSERT INTO %s SELECT 20000 + i, point(64) FROM generate_series(1, 30) i",
	equal => "BEGIN; INSERT INTO %s SELECT 20000 + i, v FROM generate_series(1, 40) i, (SELECT v FROM %s WHERE id = 5) s",
	'delete some' => "DELETE FROM %s WHERE id > 10050; VACUUM (INDEX_CLEANUP on) %s",
	'delete many' => "DELETE FROM %s WHERE id % 3 = 0; VACUUM (INDEX_CLEANUP on) %s",
	'and again' => "SELECT recall('%s', operator, 10) FROM hnsw_index('%s')");
my @order = ('nearest', 'all', 'check', 'info', 'recall', 'insert', 'equal', 'delete some', 'delete many', 'and again');

my %ended = (reported => 0, worked => 0);
for my $case (@cases)
{
	my $table = $case->{table};
	my $script = "\\set ON_ERROR_STOP 0\n";
	$script .= "\\c\n\\warn == $_\nSET statement_timeout = '60s';\n" . ($statement{$_} =~ s/%s/$table/gr) . ";\n" for @order;
	my $result = run_sql($node, $script);
	my @wrong;
	push @wrong, "psql has ended: $result->{err}" if $result->{rc} != 0;
	my @answers = split /^== /m, $result->{err};
	shift @answers;
	for my $answer (@answers)
	{
		# Postgres itself looks at page headers
		my $is_reported = $answer =~ /ERROR:  XX002: index "${table}_v" is damaged: .*\nDETAIL:  Block \d+\.\nHINT:  REINDEX INDEX ${table}_v /
		  || $answer =~ /ERROR:  XX001: invalid page in block \d+/;
		push @wrong, $answer if $answer =~ /ERROR|FATAL|PANIC/ and !$is_reported;
		$ended{ $is_reported ? 'reported' : 'worked' }++;
	}
	await('the server works', sub { run_sql($node, 'SELECT 1')->{rc} == 0 }) if $result->{rc} != 0;
	# slots of zeros are free slots, as vacuum leaves them: only rag_index_check can tell
	my ($recall) = $result->{out} =~ /^recall\|(.*)/m;
	my ($problems) = $result->{out} =~ /^problems\|(.*)/m;
	push @wrong, "recall is $recall, and there is no error" if ($recall // 1) < 0.9 and ($case->{how} !~ /zeros but/ or !$problems);
	is(join('', @wrong), '', "$case->{how}, $case->{where} ($table)");
}
cmp_ok($ended{reported}, '>', 50, 'damage is reported');
cmp_ok($ended{worked}, '>', 50, 'what is not touched by it works');
same_cluster($witness, 'damage');

$node->safe_psql('postgres', "REINDEX INDEX $_->{table}_v") for @cases;
is($node->safe_psql('postgres', join ' UNION ALL ', map { "SELECT fault('$_->{table}')" } @cases), "\n" x $#cases, 'REINDEX heals them all');

$node->stop;
done_testing();
