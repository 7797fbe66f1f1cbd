-- Which ten items of a store have the highest and the lowest average profit?
WITH sold AS (
  SELECT ss_item_sk AS item_sk, ss_hdemo_sk AS household_sk, ss_net_profit AS profit
  FROM store_sales
  WHERE ss_store_sk = 1
),
earned AS (
  SELECT item_sk, avg(profit) AS mean
  FROM sold
  GROUP BY item_sk
  HAVING avg(profit) > 0.9 * (SELECT avg(profit) FROM sold WHERE household_sk IS NULL)
),
ranked AS (
  SELECT
    i_product_name AS product,
    row_number() OVER (ORDER BY mean DESC, item_sk) AS from_best,
    row_number() OVER (ORDER BY mean, item_sk) AS from_worst
  FROM earned
  JOIN item ON i_item_sk = item_sk
)
SELECT best.from_best AS position, best.product AS best, worst.product AS worst
FROM ranked AS best
JOIN ranked AS worst ON worst.from_worst = best.from_best
WHERE best.from_best <= 10
ORDER BY position
